(* The judgement of register readings (meteragent/core/register_judgement.py) believes every reading of a load. *)

From Coq Require Import Bool List ZArith Lia Reals Lra.
From Proofs Require Import Sums.
Import ListNotations.
Open Scope Z_scope.

Record reading := Reading { time : Z; value : Z }.

(* The index of the next good reading, that of the reading which settles it, and the shift that is not use. *)
Record change := Change { end_ : nat; settled_by : nat; shift : Z }.

Section Judgement.
  (* The range, in units per ms; what values are multiplied by; the step, in units; the modulus. *)
  Variables (low high interval step : Z) (modulus : option Z).

  (* How two doubted readings in a row become a new level: the rule never gets that far. *)
  Variable new_level : reading -> reading -> reading -> nat -> option change.

  Definition span a b := time b - time a.
  Definition use a b sh := (value b - value a - sh) * interval.
  Definition between l u h := (l <=? u) && (u <=? h).

  Definition is_within a b :=
    between (low * span a b - Z.abs low * 1000 - step) (use a b 0) (high * span a b + Z.abs high * 1000 + step).

  Definition is_possible a b sh :=
    let weight := span a b + 1000 + 9 * Z.min (span a b) 3600000 in
    between (Z.min low 0 * weight - step) (use a b sh) (Z.max high 0 * weight + step).

  Definition possible_shift a b :=
    if is_possible a b 0 then Some 0
    else match modulus with Some m => if is_possible a b (- m) then Some (- m) else None | None => None end.

  Definition is_none {T} (o : option T) := match o with None => true | Some _ => false end.

  Definition is_contradicted good a b := is_none (possible_shift a b) && negb (is_none (possible_shift good b)).

  (* `next_change`: the readings after the good one, from that at [index] on; [before] is the one before it. *)
  Fixpoint scan good before index later : option change :=
    match later with
    | [] => None
    | a :: rest =>
      match possible_shift good a with
      | None =>
        match (if (1 <? index)%nat then new_level good before a index else None) with
        | Some level => Some level
        | None => scan good a (S index) rest
        end
      | Some sh =>
        if (sh =? 0) && is_within good a then Some (Change index index 0)
        else match rest with
          | b :: _ => if is_contradicted good a b then scan good a (S index) rest else Some (Change index (S
            index) sh)
          | [] => Some (Change index (S index) sh)
          end
      end
    end.

  Definition next_change good later := scan good good 1 later.

  (* The readings that are believed, each as the change to it. *)
  Fixpoint believed fuel good later : list (reading * change) :=
    match fuel with
    | O => []
    | S fuel =>
      match next_change good later with
      | None => []
      | Some c =>
        match skipn (pred (end_ c)) later with
        | [] => []
        | a :: rest => (a, c) :: believed fuel a rest
        end
      end
    end.

  Fixpoint chain (P : reading -> reading -> Prop) good later :=
    match later with [] => True | a :: rest => P good a /\ chain P a rest end.

  Lemma possible_next good a rest : is_possible good a 0 = true -> chain (fun a b => is_possible a b 0
    = true) a rest ->
    exists s, next_change good (a :: rest) = Some (Change 1 s 0).
  Proof.
    intros H Hc; unfold next_change; simpl; unfold possible_shift at 1; rewrite H; simpl.
    destruct (is_within good a); [eexists; reflexivity|].
    destruct rest as [|b rest]; [eexists; reflexivity|destruct Hc as [Hb _]].
    unfold is_contradicted, possible_shift at 1; rewrite Hb; simpl; eexists; reflexivity.
  Qed.

  (* THEORY A.15, claim (a load decides nothing): if each reading is possible after the one before without the
     modulus, none is dropped, and no change is a rollover, a reset or a jump. *)
  Theorem possible_readings_are_believed good later : chain (fun a b => is_possible a b 0 = true) good later ->
    map fst (believed (length later) good later) = later /\
    Forall (fun ac => end_ (snd ac) = 1%nat /\ shift (snd ac) = 0) (believed (length later) good later).
  Proof.
    revert good; induction later as [|a rest IH]; intros good; [simpl; auto|intros [H Hc]].
    destruct (possible_next good a rest H Hc) as [s E].
    change (length (a :: rest)) with (S (length rest)); simpl; rewrite E; simpl.
    destruct (IH a Hc) as [-> HF]; auto.
  Qed.

  (* A register that follows a load within the range: the use between two readings, in units, lies within the
     range, and the register counts whole steps of [s]. *)
  Variable s : Z.
  Hypothesis s_pos : 0 < s <= step.

  Definition follows (energy : reading -> R) phase :=
    forall a, value a * interval = s * Int_part (energy a / IZR s + phase).

  Definition in_range (energy : reading -> R) a b := 0 <= span a b /\
    (IZR (low * span a b) <= energy b - energy a <= IZR (high * span a b))%R.

  Lemma counted_use energy phase a b : follows energy phase -> in_range energy a b ->
    low * span a b - s <= use a b 0 <= high * span a b + s.
  Proof.
    intros Hf [_ [Hl Hh]].
    assert (E : use a b 0 = s * (Int_part (energy b / IZR s + phase) - Int_part (energy a / IZR s + phase))).
    { unfold use; rewrite Z.sub_0_r, Z.mul_sub_distr_r, !Hf; ring. }
    assert (S0 : (0 < IZR s)%R) by (apply IZR_lt; lia).
    destruct (base_Int_part (energy a / IZR s + phase)) as [A1 A2], (base_Int_part (energy b / IZR s + phase)) as
      [B1 B2].
    set (i := Int_part (energy a / IZR s + phase)) in *; set (j := Int_part (energy b / IZR s + phase)) in *.
    assert (D : (energy b - energy a = IZR s * ((energy b / IZR s + phase) - (energy a / IZR s + phase)))%R)
      by (field; lra).
    rewrite E; split; apply le_IZR; rewrite ?plus_IZR, ?minus_IZR, (mult_IZR s), minus_IZR.
    - apply Rle_trans with (energy b - energy a - IZR s)%R; [lra|rewrite D; nra].
    - apply Rle_trans with (energy b - energy a + IZR s)%R; [rewrite D; nra|lra].
  Qed.

  Lemma load_is_possible energy phase a b : follows energy phase -> in_range energy a b ->
    is_within a b = true /\ is_possible a b 0 = true.
  Proof.
    intros Hf Hr; pose proof (counted_use energy phase a b Hf Hr) as [H1 H2]; destruct Hr as [H0 _].
    unfold is_within, is_possible, between; rewrite !andb_true_iff, !Z.leb_le.
    set (t := span a b) in *; repeat split; nia.
  Qed.

  (* For such a load every change is settled at once and within the range, so no use is clamped either. *)
  Theorem load_is_believed energy phase good later : follows energy phase -> chain (in_range energy) good later ->
    believed (length later) good later = map (fun a => (a, Change 1 1 0)) later /\
    chain (fun a b => is_within a b = true) good later.
  Proof.
    intros Hf; revert good; induction later as [|a rest IH]; intros good; [simpl; auto|intros [H Hc]].
    destruct (load_is_possible energy phase good a Hf H) as [Hw Hp].
    destruct (IH a Hc) as [E Hr].
    change (length (a :: rest)) with (S (length rest)); simpl.
    unfold next_change; simpl; unfold possible_shift at 1; rewrite Hp; simpl; rewrite Hw; simpl; rewrite E; auto.
  Qed.
End Judgement.

(* A slot takes the clamped use of each span times the share of the span that lies in the slot. *)
Section Slot.
  Open Scope R_scope.

  Record stretch := Stretch { length_ : R; overlap : R; use_of_load : R; use_of_other : R }.

  (* The limits of a use depend on the length of the span alone. *)
  Variables least largest : R -> R.

  Definition clamp length_ u := Rmax (least length_) (Rmin (largest length_) u).

  Definition energy (u : stretch -> R) := total (fun s => clamp (length_ s) (u s) * (overlap s / length_ s)).

  Lemma clamp_lipschitz length_ u u' : Rabs (clamp length_ u - clamp length_ u') <= Rabs (u - u').
  Proof.
    unfold clamp, Rmax, Rmin; repeat destruct Rle_dec; unfold Rabs; repeat destruct Rcase_abs; lra.
  Qed.

  (* THEORY A.15, claim (a load decides nothing): uses that differ by at most d a unit of time move the energy of a
     slot of length T by at most d T, and so its mean by at most d. *)
  Theorem slot_moves_by_the_loads d slot stretches : 0 <= d ->
    Forall (fun s => 0 < length_ s /\ 0 <= overlap s /\
      Rabs (use_of_load s - use_of_other s) <= d * length_ s) stretches ->
    total overlap stretches <= slot ->
    Rabs (energy use_of_load stretches - energy use_of_other stretches) <= d * slot.
  Proof.
    intros Hd HF Hs; apply Rle_trans with (d * total overlap stretches); [|apply Rmult_le_compat_l; auto].
    clear Hs; unfold energy; induction HF as [|s l [H1 [H2 H3]] HF IH]; simpl.
    - rewrite Rminus_0_r, Rabs_R0; lra.
    - set (x := clamp (length_ s) (use_of_load s)); set (x' := clamp (length_ s) (use_of_other s)).
      pose proof (clamp_lipschitz (length_ s) (use_of_load s) (use_of_other s)) as Hc; fold x x' in Hc.
      match goal with |- Rabs (?p + ?q - (?p' + ?q')) <= _ =>
        replace (p + q - (p' + q')) with ((x - x') * (overlap s / length_ s) + (q - q')) by ring end.
      eapply Rle_trans; [apply Rabs_triang|]; rewrite Rmult_plus_distr_l; apply Rplus_le_compat; [|exact IH].
      assert (Hw : 0 <= overlap s / length_ s) by (apply Rmult_le_pos; [|left; apply Rinv_0_lt_compat]; auto).
      rewrite Rabs_mult, (Rabs_pos_eq (_ / _)) by auto.
      replace (d * overlap s) with (d * length_ s * (overlap s / length_ s)) by (field; lra).
      apply Rmult_le_compat_r; lra.
  Qed.
End Slot.
