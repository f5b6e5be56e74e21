(* Private mechanisms with countable outputs: events, post-processing, mixtures, two releases.

   A mechanism gives each point x of its domain a law [M x]. [loss x x'] is the privacy loss between two
   points: eps times their distance in docs/theory.md. *)

From Coq Require Import List Lia Reals Lra.
From Proofs Require Import Sums.
Open Scope R_scope.

Section Definitions.
  Context {X Y : Type}.

  (* Notation of docs/theory.md, "eps d-private": for all events. *)
  Definition private (loss : X -> X -> R) (M : X -> Y -> R) := forall x x' A p p',
    Prob (M x) A p -> Prob (M x') A p' -> p <= exp (loss x x') * p'.

  (* The odds of every output suffice, and are necessary. *)
  Theorem private_iff_odds loss M : (forall x y, 0 <= M x y) ->
    (private loss M <-> forall x x' y, M x y <= exp (loss x x') * M x' y).
  Proof.
    intros H0; split.
    - intros H x x' y; apply (H x x' (eq y)); apply Prob_one; auto.
    - intros H x x' A p p'; apply Prob_le; [left; apply exp_pos|auto].
  Qed.
End Definitions.

Section Postprocessing.
  Context {X Y W : Type} (DY : eq_dec Y) (DW : eq_dec W).
  Variables (loss : X -> X -> R) (M : X -> Y -> R) (K : Y -> W -> R) (N : X -> W -> R).
  Hypothesis M_law : forall x, law (M x).
  Hypothesis K_law : forall y, law (K y).
  (* N draws y from M x, and then w from K y, which sees y only. *)
  Hypothesis M_then_K : forall x w, Sum (fun y => M x y * K y w) (N x w).

  Theorem postprocessing_law x : law (N x).
  Proof.
    destruct (M_law x) as [M0 M1]; split.
    - intros w; apply (Prob_nonneg _ _ _ (M_then_K x w)).
    - apply (Sum_swap DY DW (fun y w => M x y * K y w) (M x)); auto.
      intros y; apply Sum_scale_one; auto; apply K_law.
  Qed.

  Theorem postprocessing : private loss M -> private loss N.
  Proof.
    intros H; apply private_iff_odds.
    { intros x w; apply (Prob_nonneg _ _ _ (M_then_K x w)). }
    intros x x' w.
    apply (Prob_le _ _ _ _ _ (exp (loss x x')) (Rlt_le _ _ (exp_pos _)))
      with (2 := M_then_K x w) (3 := M_then_K x' w).
    intros y _; rewrite <- Rmult_assoc; apply Rmult_le_compat_r; [apply K_law|].
    apply private_iff_odds; auto; intros; apply M_law.
  Qed.
End Postprocessing.

Definition postprocessing_exists {X Y W} (M : X -> Y -> R) (K : Y -> W -> R) :
  (forall x, law (M x)) -> (forall y, law (K y)) ->
  {N : X -> W -> R | forall x w, Sum (fun y => M x y * K y w) (N x w)}.
Proof.
  intros HM HK.
  assert (E : forall x w, {p | Sum (fun y => M x y * K y w) p}).
  { intros x w; apply Prob_exists with 1; intros l Hl.
    apply Rle_trans with (total (M x) l); [|apply (HM x); auto].
    apply total_le; intros y _; rewrite <- (Rmult_1_r (M x y)) at 2.
    apply Rmult_le_compat_l; [apply HM|apply Sum_term with (f := K y); apply HK]. }
  exists (fun x w => proj1_sig (E x w)); intros x w; exact (proj2_sig (E x w)).
Defined.

(* A coin u that does not depend on the point is drawn first: what is private for every u is private. *)
Section Mixture.
  Context {U X Y : Type} (DU : eq_dec U) (DY : eq_dec Y).
  Variables (loss : X -> X -> R) (g : U -> R) (M : U -> X -> Y -> R) (N : X -> Y -> R).
  Hypothesis g_law : law g.
  Hypothesis M_law : forall u x, law (M u x).
  Hypothesis mixed : forall x y, Sum (fun u => g u * M u x y) (N x y).

  Theorem mixture_law x : law (N x).
  Proof. apply (postprocessing_law DU DY (fun _ : X => g) (fun u => M u x) (fun _ => N x)); auto. Qed.

  Theorem mixture : (forall u, private loss (M u)) -> private loss N.
  Proof.
    intros H; apply private_iff_odds.
    { intros x y; apply (Prob_nonneg _ _ _ (mixed x y)). }
    intros x x' y.
    apply (Prob_le _ _ _ _ _ (exp (loss x x')) (Rlt_le _ _ (exp_pos _))) with (2 := mixed x y) (3 := mixed x' y).
    intros u _; replace (exp (loss x x') * (g u * M u x' y)) with (g u * (exp (loss x x') * M u x' y)) by ring.
    apply Rmult_le_compat_l; [apply g_law|].
    apply private_iff_odds; auto; intros; apply M_law.
  Qed.
End Mixture.

(* Two releases, the second of which may depend on the first: losses add. *)
Section Composition.
  Context {X Y W : Type} (DY : eq_dec Y).
  Variables (loss loss' : X -> X -> R) (M : X -> Y -> R) (M' : Y -> X -> W -> R).
  Hypothesis M_law : forall x, law (M x).
  Hypothesis M'_law : forall y x, law (M' y x).

  Definition both x (p : Y * W) := M x (fst p) * M' (fst p) x (snd p).

  Theorem composition_law x : law (both x).
  Proof.
    split.
    - intros p; apply Rmult_le_pos; [apply M_law|apply M'_law].
    - apply (Sum_pairs DY (fun y w => M x y * M' y x w) (M x)); [|apply M_law].
      intros y; apply Sum_scale_one; [apply M_law|apply M'_law].
  Qed.

  Theorem composition : private loss M -> (forall y, private loss' (M' y)) ->
    private (fun x x' => loss x x' + loss' x x') both.
  Proof.
    intros H H'; apply private_iff_odds; [apply composition_law|].
    intros x x' [y w]; unfold both; simpl; rewrite exp_plus.
    replace (exp (loss x x') * exp (loss' x x') * (M x' y * M' y x' w))
      with ((exp (loss x x') * M x' y) * (exp (loss' x x') * M' y x' w)) by ring.
    apply Rmult_le_compat; [apply M_law|apply M'_law| |].
    - apply private_iff_odds; auto; intros; apply M_law.
    - apply private_iff_odds; auto; intros; apply M'_law.
  Qed.
End Composition.
