(* One slot with a dither: its exact law, and its exact loss. *)

From Coq Require Import List ZArith Arith Lia Reals Lra Psatz.
From Proofs Require Import Sums Privacy.
Import ListNotations.
Open Scope R_scope.

Section OneSlot.
  (* L units a quantum; the noise has masses c e^(-a|z|). *)
  Variables (a c : R) (L : Z).
  Hypothesis (a_pos : 0 < a) (c_pos : 0 < c) (L_pos : (0 < L)%Z).

  Definition fraction t := IZR (t mod L) / IZR L.

  Definition units := map Z.of_nat (seq 0 (Z.to_nat L)).

  Lemma total_constant {T} (f : T -> R) v l : (forall t, In t l -> f t = v) -> total f l = v * INR (length l).
  Proof.
    induction l as [|t l IH]; intros H; [simpl; ring|].
    change (length (t :: l)) with (S (length l)); rewrite S_INR; simpl.
    rewrite H, IH; [ring|intros u Hu; apply H; right; auto|left; auto].
  Qed.

  Lemma length_seq k first : length (seq first k) = k.
  Proof. revert first; induction k as [|k IH]; intros first; simpl; [reflexivity|rewrite IH; reflexivity]. Qed.

  (* THEORY A.1.1: the mean over the dithers u of any function of the rounded energy. *)
  Theorem dithered_mean (f : Z -> R) S : total (fun u => / IZR L * f ((u + S) / L)%Z) units =
    (1 - fraction S) * f (S / L)%Z + fraction S * f (S / L + 1)%Z.
  Proof.
    pose proof (Z.mod_pos_bound S L L_pos) as Hr; pose proof (Z.div_mod S L) as HS.
    assert (HL : 0 < IZR L) by (apply IZR_lt; auto).
    unfold units, fraction; set (r := (S mod L)%Z) in *; set (m := (S / L)%Z) in *.
    replace (Z.to_nat L) with (Z.to_nat (L - r) + Z.to_nat r)%nat by lia.
    rewrite total_map, seq_app, total_app, (total_constant _ (/ IZR L * f m)), (total_constant _ (/ IZR L * f (m
      + 1)%Z)).
    - rewrite !length_seq, !INR_IZR_INZ, !Z2Nat.id, minus_IZR by lia; field; lra.
    - intros u Hu; apply in_seq in Hu; do 2 f_equal.
      symmetry; apply Z.div_unique with (r := (Z.of_nat u + r - L)%Z); lia.
    - intros u Hu; apply in_seq in Hu; do 2 f_equal.
      symmetry; apply Z.div_unique with (r := (Z.of_nat u + r)%Z); lia.
  Qed.

  Theorem dithered_unbiased S : total (fun u => / IZR L * IZR ((u + S) / L)) units = IZR S / IZR L.
  Proof.
    assert (HL : 0 < IZR L) by (apply IZR_lt; auto).
    rewrite (dithered_mean IZR), plus_IZR; unfold fraction.
    pose proof (Z.div_mod S L) as HS; rewrite HS at 5 by lia; rewrite plus_IZR, mult_IZR; field; lra.
  Qed.

  (* The mass of the output y. *)
  Definition one_slot S y := total (fun u => / IZR L * (c * exp (- a * IZR (Z.abs (y - (u + S) / L))))) units.

  (* T.4's I: e^(ax), interpolated between whole quanta; x is in units. *)
  Definition grown x := exp (a * IZR (x / L)) * (1 + fraction x * (exp a - 1)).

  (* h, the worst loss at a distance of x units. *)
  Definition h x := a * IZR (x / L) + ln (1 + fraction x * (exp a - 1)).

  Lemma exp_a : 0 < exp a - 1.
  Proof. assert (exp 0 < exp a) by (apply exp_increasing; auto); rewrite exp_0 in *; lra. Qed.

  Lemma fraction_bounds x : 0 <= fraction x < 1.
  Proof.
    unfold fraction; pose proof (Z.mod_pos_bound x L L_pos) as [H1 H2]; apply IZR_le in H1; apply IZR_lt in H2.
    assert (HL : 0 < IZR L) by (apply IZR_lt; auto); split.
    - apply Rmult_le_pos; [auto|left; apply Rinv_0_lt_compat; auto].
    - apply Rmult_lt_reg_r with (IZR L); [auto|field_simplify; lra].
  Qed.

  Lemma grown_factor x : 1 <= 1 + fraction x * (exp a - 1) <= exp a.
  Proof. pose proof exp_a; pose proof (fraction_bounds x); split; nra. Qed.

  Lemma exp_h x : exp (h x) = grown x.
  Proof. unfold h, grown; rewrite exp_plus, exp_ln; [reflexivity|pose proof (grown_factor x); lra]. Qed.

  Lemma grown_pos x : 0 < grown x.
  Proof. rewrite <- exp_h; apply exp_pos. Qed.

  Lemma exp_le x y : x <= y -> exp x <= exp y.
  Proof. intros [H|H]; [left; apply exp_increasing; auto|rewrite H; lra]. Qed.

  Lemma grown_le x y : (x <= y)%Z -> grown x <= grown y.
  Proof.
    intros H; unfold grown; pose proof (Z.div_le_mono x y L L_pos H) as Hk.
    pose proof (grown_factor x) as Fx; pose proof (grown_factor y) as Fy.
    destruct (Z.eq_dec (x / L) (y / L)) as [E|E].
    - rewrite E; apply Rmult_le_compat_l; [left; apply exp_pos|].
      apply Rplus_le_compat_l, Rmult_le_compat_r; [pose proof exp_a; lra|].
      unfold fraction; apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat, IZR_lt; auto|apply IZR_le].
      pose proof (Z.div_mod x L); pose proof (Z.div_mod y L); lia.
    - assert (IZR (x / L) + 1 <= IZR (y / L)) as Hk' by (rewrite <- plus_IZR; apply IZR_le; lia).
      apply Rle_trans with (exp (a * IZR (x / L)) * exp a).
      + apply Rmult_le_compat_l; [left; apply exp_pos|lra].
      + rewrite <- exp_plus; apply Rle_trans with (exp (a * IZR (y / L))); [apply exp_le; nra|].
        rewrite <- (Rmult_1_r (exp _)) at 1; apply Rmult_le_compat_l; [left; apply exp_pos|lra].
  Qed.

  (* I(s + t) <= I(s) I(t). *)
  Lemma grown_add x y : grown (x + y) <= grown x * grown y.
  Proof.
    assert (HL : 0 < IZR L) by (apply IZR_lt; auto).
    pose proof exp_a as He; pose proof (fraction_bounds x) as Bx; pose proof (fraction_bounds y) as By.
    pose proof (Z.mod_pos_bound x L L_pos); pose proof (Z.mod_pos_bound y L L_pos).
    pose proof (Z.div_mod x L); pose proof (Z.div_mod y L).
    assert (P : 0 < exp (a * IZR (x / L)) * exp (a * IZR (y / L))) by (apply Rmult_lt_0_compat; apply exp_pos).
    unfold grown.
    replace (exp (a * IZR (x / L)) * (1 + fraction x * (exp a - 1)) *
        (exp (a * IZR (y / L)) * (1 + fraction y * (exp a - 1))))
      with (exp (a * IZR (x / L)) * exp (a * IZR (y / L)) *
        ((1 + fraction x * (exp a - 1)) * (1 + fraction y * (exp a - 1)))) by ring.
    destruct (Z_lt_le_dec (x mod L + y mod L) L) as [Hs|Hs].
    - assert (E1 : ((x + y) / L = x / L + y / L)%Z)
        by (symmetry; apply Z.div_unique with (r := (x mod L + y mod L)%Z); lia).
      assert (E2 : ((x + y) mod L = x mod L + y mod L)%Z)
        by (symmetry; apply Z.mod_unique with (q := (x / L + y / L)%Z); lia).
      unfold fraction at 1; rewrite E1, E2, !plus_IZR.
      replace ((IZR (x mod L) + IZR (y mod L)) / IZR L) with (fraction x + fraction y)
        by (unfold fraction; field; lra).
      replace (a * (IZR (x / L) + IZR (y / L))) with (a * IZR (x / L) + a * IZR (y / L)) by ring.
      rewrite exp_plus; apply Rmult_le_compat_l; [lra|].
      assert (0 <= fraction x * fraction y * ((exp a - 1) * (exp a - 1)))
        by (apply Rmult_le_pos; apply Rmult_le_pos; lra); lra.
    - assert (E1 : ((x + y) / L = x / L + y / L + 1)%Z)
        by (symmetry; apply Z.div_unique with (r := (x mod L + y mod L - L)%Z); lia).
      assert (E2 : ((x + y) mod L = x mod L + y mod L - L)%Z)
        by (symmetry; apply Z.mod_unique with (q := (x / L + y / L + 1)%Z); lia).
      unfold fraction at 1; rewrite E1, E2, minus_IZR, !plus_IZR.
      replace ((IZR (x mod L) + IZR (y mod L) - IZR L) / IZR L) with (fraction x + fraction y - 1)
        by (unfold fraction; field; lra).
      replace (a * (IZR (x / L) + IZR (y / L) + 1)) with (a * IZR (x / L) + a * IZR (y / L) + a) by ring.
      rewrite !exp_plus, Rmult_assoc; apply Rmult_le_compat_l; [lra|].
      assert (0 <= (1 - fraction x) * (1 - fraction y) * ((exp a - 1) * (exp a - 1)))
        by (apply Rmult_le_pos; apply Rmult_le_pos; lra); nra.
  Qed.

  (* An output that is t units away has the mass c I(-|t|). *)
  Lemma one_slot_grown S y : one_slot S y = c * grown (- Z.abs (S - y * L)).
  Proof.
    unfold one_slot; rewrite (dithered_mean (fun k => c * exp (- a * IZR (Z.abs (y - k))))).
    assert (HL : 0 < IZR L) by (apply IZR_lt; auto).
    pose proof (Z.mod_pos_bound S L L_pos) as Hr; pose proof (Z.div_mod S L) as HS;
      pose proof (fraction_bounds S) as Bf.
    assert (Ea : exp a * exp (- a) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    destruct (Z_lt_le_dec (S / L) y) as [Hy|Hy].
    - (* below: -|t| = S - y L *)
      replace (- Z.abs (S - y * L))%Z with (S + (- y) * L)%Z by nia.
      unfold grown, fraction; rewrite Z.div_add, Z.mod_add by lia; fold (fraction S).
      rewrite !Z.abs_eq by lia.
      replace (- a * IZR (y - S / L)) with (a * IZR (S / L + - y)) by (rewrite minus_IZR, plus_IZR, opp_IZR; ring).
      replace (- a * IZR (y - (S / L + 1))) with (a * IZR (S / L + - y) + a)
        by (rewrite minus_IZR, !plus_IZR, opp_IZR; ring).
      rewrite exp_plus; ring.
    - (* above: -|t| = y L - S *)
      destruct (Z.eq_dec (S mod L) 0) as [E0|E0].
      + replace (- Z.abs (S - y * L))%Z with (0 + (y - S / L) * L)%Z by nia.
        unfold grown, fraction; rewrite Z.div_add, Z.mod_add, E0, Z.div_0_l, Z.mod_0_l by lia.
        rewrite (Z.abs_neq (y - S / L)) by lia.
        replace (- a * IZR (- (y - S / L))) with (a * IZR (0 + (y - S / L))) by (rewrite opp_IZR, plus_IZR; ring).
        unfold Rdiv; ring.
      + replace (- Z.abs (S - y * L))%Z with ((L - S mod L) + (y - S / L - 1) * L)%Z by nia.
        unfold grown, fraction; rewrite Z.div_add, Z.mod_add, (Z.div_small (L - S mod L)), (Z.mod_small (L - S
          mod L)) by lia.
        rewrite !Z.abs_neq by lia.
        replace (- a * IZR (- (y - S / L))) with (a * IZR (0 + (y - S / L - 1)) + a)
          by (rewrite opp_IZR, plus_IZR, !minus_IZR; ring).
        replace (- a * IZR (- (y - (S / L + 1)))) with (a * IZR (0 + (y - S / L - 1)))
          by (rewrite opp_IZR, plus_IZR, !minus_IZR, plus_IZR; ring).
        rewrite exp_plus, minus_IZR; field; lra.
  Qed.

  (* THEORY A.1.3 and T.4: the loss is at most h(d). *)
  Theorem one_slot_private : private (fun S S' => h (Z.abs (S - S'))) one_slot.
  Proof.
    assert (G0 : grown 0 = 1).
    { unfold grown, fraction; rewrite Z.div_0_l, Z.mod_0_l, Rmult_0_r, exp_0 by lia; unfold Rdiv; ring. }
    apply private_iff_odds.
    { intros S y; rewrite one_slot_grown; apply Rmult_le_pos; left; [auto|apply grown_pos]. }
    intros S S' y; rewrite !one_slot_grown, exp_h.
    set (t := (S - y * L)%Z); set (t' := (S' - y * L)%Z);
      replace (Z.abs (S - S')) with (Z.abs (t - t')) by (unfold t, t'; lia).
    replace (grown (Z.abs (t - t')) * (c * grown (- Z.abs t')))
      with (c * (grown (Z.abs (t - t')) * grown (- Z.abs t'))) by ring.
    apply Rmult_le_compat_l; [lra|].
    apply Rle_trans with (grown (Z.abs (t - t') + - Z.abs t')); [apply grown_le; lia|apply grown_add].
  Qed.

  (* THEORY A.1.3 and T.4: from a whole value, an output beyond both has exactly this loss. *)
  Theorem one_slot_exact d y : (0 <= d)%Z -> (d <= y * L)%Z -> one_slot d y = exp (h d) * one_slot 0 y.
  Proof.
    intros Hd Hy; rewrite !one_slot_grown, exp_h.
    replace (- Z.abs (d - y * L))%Z with (d + (- y) * L)%Z by lia.
    replace (- Z.abs (0 - y * L))%Z with (0 + (- y) * L)%Z by lia.
    unfold grown, fraction; rewrite !Z.div_add, !Z.mod_add, Z.div_0_l, Z.mod_0_l by lia.
    replace (a * IZR (d / L + - y)) with (a * IZR (d / L) + a * IZR (0 + - y)) by (rewrite !plus_IZR; ring).
    rewrite exp_plus; unfold Rdiv; ring.
  Qed.
End OneSlot.
