(* Adaptive releases: the odometer adds up levels, and a filter keeps a budget.

   A history is the list of the outputs so far, the newest first. What is released next, with which noise, and
   what the load has become, may depend on it: [M h x y] is the mass of the output y for the stream x. *)

From Coq Require Import Bool List Arith ZArith Lia Reals Lra.
From Proofs Require Import Sums Privacy Rounding.
Import ListNotations.
Open Scope R_scope.

Section Ledger.
  Context {X Y : Type} (DY : eq_dec Y).
  Notation history := (list Y) (only parsing).
  Variables (M : history -> X -> Y -> R) (eps : history -> R) (dist : history -> X -> X -> R).
  Hypothesis M_law : forall h x, law (M h x).
  Hypothesis M_private : forall h, private (fun x x' => eps h * dist h x x') (M h).

  (* Whether the analyst asks for more, and what it may spend. *)
  Variables (more : history -> bool) (budget : R).

  (* Whether the filter opens the next window. *)
  Definition opens h spent := if more h then if Rle_lt_dec (spent + eps h) budget then true else false else false.

  (* The mass of a transcript of at most [slots] further outputs. *)
  Fixpoint transcript slots h spent x (ys : list Y) : R :=
    match slots with
    | O => if ys then 1 else 0
    | S rest =>
      if opens h spent
      then match ys with [] => 0 | y :: zs => M h x y * transcript rest (y :: h) (spent + eps h) x zs end
      else if ys then 1 else 0
    end.

  (* What the odometer shows after a transcript, and its loss. *)
  Fixpoint odometer h (ys : list Y) : R := match ys with [] => 0 | y :: zs => eps h + odometer (y :: h) zs end.

  Fixpoint ledger_loss h (ys : list Y) x x' : R :=
    match ys with [] => 0 | y :: zs => eps h * dist h x x' + ledger_loss (y :: h) zs x x' end.

  Lemma transcript_nonneg slots h spent x ys : 0 <= transcript slots h spent x ys.
  Proof.
    revert h spent ys; induction slots as [|slots IH]; intros h spent [|y ys]; simpl; try lra;
      destruct (opens h spent); try lra; apply Rmult_le_pos; auto; apply M_law.
  Qed.

  Lemma Sum_stop : Sum (fun ys : list Y => if ys then 1 else 0) 1.
  Proof.
    set (f := fun ys : list Y => if ys then 1 else 0).
    assert (E : total f [[]] = 1) by (unfold f; simpl; lra); rewrite <- E.
    apply (Sum_finite (list_eq_dec DY)); [intros []; unfold f; lra|repeat constructor; auto|].
    intros [|y ys] H; [destruct H; left|]; reflexivity.
  Qed.

  Theorem transcript_law slots h spent x : law (transcript slots h spent x).
  Proof.
    split; [apply transcript_nonneg|].
    revert h spent; induction slots as [|slots IH]; intros h spent; simpl; [apply Sum_stop|].
    destruct (opens h spent); [|apply Sum_stop].
    apply (Sum_support _ (fun ys : list Y => if ys then false else true)).
    { intros [|y ys]; [reflexivity|discriminate]. }
    apply (Prob_bijection _ _ (fun p : Y * list Y => fst p :: snd p)).
    - intros [y ys] [y' ys'] E; simpl in E; injection E as -> ->; reflexivity.
    - intros [|y ys] E; [discriminate E|exists (y, ys); reflexivity].
    - apply Prob_ext with
        (fun p : Y * list Y => M h x (fst p) * transcript slots (fst p :: h) (spent + eps h) x (snd p))
        (@all (Y * list Y)); [reflexivity|intros; unfold all; tauto|].
      apply (Sum_pairs DY (fun y ys => M h x y * transcript slots (y :: h) (spent + eps h) x ys) (M h x)).
      + intros y; apply Sum_scale_one; [apply M_law|apply IH].
      + apply M_law.
  Qed.

  (* THEORY 5.2: the loss of a transcript is at most the sum of eps_w d_w over its windows. *)
  Theorem losses_add slots h spent x x' ys :
    transcript slots h spent x ys <= exp (ledger_loss h ys x x') * transcript slots h spent x' ys.
  Proof.
    revert h spent ys; induction slots as [|slots IH]; intros h spent ys; simpl.
    - destruct ys; simpl; [rewrite exp_0|]; lra.
    - destruct (opens h spent), ys as [|y ys]; simpl; try rewrite exp_0; try lra.
      rewrite exp_plus.
      replace (exp (eps h * dist h x x') * exp (ledger_loss (y :: h) ys x x') *
          (M h x' y * transcript slots (y :: h) (spent + eps h) x' ys))
        with ((exp (eps h * dist h x x') * M h x' y) *
          (exp (ledger_loss (y :: h) ys x x') * transcript slots (y :: h) (spent + eps h) x' ys)) by ring.
      apply Rmult_le_compat; [apply M_law|apply transcript_nonneg| |apply IH].
      apply (private_iff_odds (fun x x' => eps h * dist h x x') (M h)); [intros; apply M_law|apply M_private].
  Qed.

  (* THEORY 5.2: no transcript exceeds the budget. *)
  Theorem filter_keeps_budget slots h spent x ys :
    spent <= budget -> 0 < transcript slots h spent x ys -> spent + odometer h ys <= budget.
  Proof.
    revert h spent ys; induction slots as [|slots IH]; intros h spent ys Hs; simpl.
    - destruct ys; simpl; lra.
    - unfold opens; destruct (more h), (Rle_lt_dec (spent + eps h) budget) as [L|L], ys as [|y ys]; simpl; try lra.
      intros H; rewrite <- Rplus_assoc; apply IH; [exact L|].
      destruct (transcript_nonneg slots (y :: h) (spent + eps h) x ys) as [P|P]; [exact P|].
      rewrite <- P, Rmult_0_r in H; lra.
  Qed.

  (* THEORY 5.2: if all distances are at most d, the filter keeps budget d. *)
  Theorem filter_private (d : X -> X -> R) slots : 0 <= budget -> (forall h, 0 <= eps h) ->
    (forall h x x', dist h x x' <= d x x') -> (forall x x', 0 <= d x x') ->
    private (fun x x' => budget * d x x') (transcript slots [] 0).
  Proof.
    intros Hb He Hd H0; apply private_iff_odds; [intros; apply transcript_nonneg|].
    intros x x' ys; destruct (transcript_nonneg slots [] 0 x ys) as [P|P].
    - apply Rle_trans with (exp (ledger_loss [] ys x x') * transcript slots [] 0 x' ys); [apply losses_add|].
      apply Rmult_le_compat_r; [apply transcript_nonneg|].
      assert (L : ledger_loss [] ys x x' <= budget * d x x').
      { apply Rle_trans with (odometer [] ys * d x x').
        - clear P; generalize (@nil Y) as h; induction ys as [|y ys IH]; intros h; simpl; [lra|].
          rewrite Rmult_plus_distr_r; apply Rplus_le_compat; [apply Rmult_le_compat_l; auto|apply IH].
        - apply Rmult_le_compat_r; [apply H0|].
          pose proof (filter_keeps_budget slots [] 0 x ys Hb P); lra. }
      destruct L as [L|L]; [left; apply exp_increasing; auto|rewrite L; lra].
    - rewrite <- P; apply Rmult_le_pos; [left; apply exp_pos|apply transcript_nonneg].
  Qed.

  (* THEORY 3.2: window number k, from 0 on, is a block of b slots, released at eps/c. *)
  Section Sliding.
    Variables (b s w : Z) (level d : R) (x x' : X).
    Hypothesis (b_pos : (0 < b)%Z) (s_pos : (0 <= s)%Z) (w_pos : (0 < w)%Z) (level_pos : 0 <= level) (d_pos :
      0 <= d).
    Definition parts := (ceil_div (w - 1) b + 1)%Z.
    Hypothesis shared : forall h, eps h = level / IZR parts.

    (* The streams differ by at most d, and only in the slots s, .., s + w - 1. *)
    Definition is_touched k := ((s / b <=? Z.of_nat k) && (Z.of_nat k <=? (s + w - 1) / b))%Z.
    Hypothesis differ : forall h, dist h x x' <= if is_touched (length h) then d else 0.

    Lemma parts_pos : 0 < IZR parts.
    Proof.
      apply IZR_lt; unfold parts, ceil_div.
      assert (- (w - 1) / b <= 0)%Z by (apply Z.div_le_upper_bound; lia); lia.
    Qed.

    Lemma touched_loss h ys : ledger_loss h ys x x' <=
      level / IZR parts * d * IZR (Z.max 0 ((s + w - 1) / b + 1 - Z.max (s / b) (Z.of_nat (length h)))).
    Proof.
      pose proof parts_pos as Hp.
      assert (He : 0 <= level / IZR parts) by (apply Rmult_le_pos; [|left; apply Rinv_0_lt_compat]; auto).
      assert (Hed : 0 <= level / IZR parts * d) by (apply Rmult_le_pos; auto).
      revert h; induction ys as [|y ys IH]; intros h; simpl.
      - apply Rmult_le_pos; [auto|apply IZR_le; lia].
      - specialize (IH (y :: h)); simpl length in IH; rewrite shared.
        assert (H : level / IZR parts * dist h x x' <= level / IZR parts * (if is_touched (length h) then d else 0))
          by (apply Rmult_le_compat_l; auto).
        set (rest := Z.max 0 ((s + w - 1) / b + 1 - Z.max (s / b) (Z.of_nat (S (length h))))) in *.
        apply Rle_trans with (level / IZR parts * d * (IZR rest + (if is_touched (length h) then 1 else 0))).
        + destruct (is_touched (length h)); lra.
        + apply Rmult_le_compat_l; [auto|].
          replace (if is_touched (length h) then 1 else 0) with (IZR (if is_touched (length h) then 1 else 0))
            by (destruct (is_touched (length h)); reflexivity).
          rewrite <- plus_IZR; apply IZR_le; unfold rest, is_touched.
          destruct (Z.leb_spec (s / b) (Z.of_nat (length h))), (Z.leb_spec (Z.of_nat (length h)) ((s + w - 1) / b));
            simpl; lia.
    Qed.

    Theorem sliding_private slots A p p' : Prob (transcript slots [] 0 x) A p ->
      Prob (transcript slots [] 0 x') A p' ->
      p <= exp (level * d) * p'.
    Proof.
      apply Prob_le; [left; apply exp_pos|]; intros ys _; eapply Rle_trans; [apply losses_add|].
      apply Rmult_le_compat_r; [apply transcript_nonneg|].
      assert (L : ledger_loss [] ys x x' <= level * d).
      { eapply Rle_trans; [apply touched_loss|]; pose proof parts_pos as Hp.
        apply Rle_trans with (level / IZR parts * d * IZR parts); [|right; field; lra].
        apply Rmult_le_compat_l.
        - repeat apply Rmult_le_pos; auto; left; apply Rinv_0_lt_compat; auto.
        - apply IZR_le; simpl; unfold parts; pose proof (blocks_touched b s w b_pos w_pos).
          assert (0 <= s / b)%Z by (apply Z.div_pos; lia).
          assert (s / b <= (s + w - 1) / b)%Z by (apply Z.div_le_mono; lia); lia. }
      destruct L as [L|L]; [left; apply exp_increasing; auto|rewrite L; lra].
    Qed.
  End Sliding.
End Ledger.
