(* The l_inf Laplace law on Z^n, in quanta: its radius, its normaliser, its privacy, and adaptive loads.

   One quantum is one step, so a = eps q; docs/theory.md writes e^(-a |z|) with |z| the largest of the |z_i|. *)

From Coq Require Import List ZArith Arith Lia Reals Lra FinFun Eqdep_dec.
From Proofs Require Import Sums Privacy.
Import ListNotations.
Open Scope R_scope.

(* Windows of n slots. *)

Fixpoint window (n : nat) : Type := match n with O => unit | S m => (Z * window m)%type end.

Fixpoint window_dec n : eq_dec (window n).
Proof.
  destruct n as [|n]; simpl; [intros [] []; left; reflexivity|].
  intros [z v] [z' v']; destruct (Z.eq_dec z z') as [->|E]; [|right; congruence].
  destruct (window_dec n v v') as [->|E]; [left; reflexivity|right; congruence].
Defined.

Fixpoint norm {n} : window n -> Z :=
  match n with O => fun _ => 0%Z | S m => fun v => Z.max (Z.abs (fst v)) (norm (snd v)) end.

Fixpoint minus {n} : window n -> window n -> window n :=
  match n with
  | O => fun v _ => v
  | S m => fun v w => ((fst v - fst w)%Z, minus (snd v) (snd w))
  end.

Fixpoint plus {n} : window n -> window n -> window n :=
  match n with
  | O => fun v _ => v
  | S m => fun v w => ((fst v + fst w)%Z, plus (snd v) (snd w))
  end.

(* d_inf, in quanta. *)
Definition dist {n} (v w : window n) : Z := norm (minus v w).

Lemma norm_nonneg n (v : window n) : (0 <= norm v)%Z.
Proof. induction n as [|n IH]; simpl; [lia|specialize (IH (snd v)); lia]. Qed.

Lemma minus_minus n (y v w : window n) : dist (minus y v) (minus y w) = dist v w.
Proof. unfold dist; induction n as [|n IH]; simpl; [reflexivity|rewrite IH; lia]. Qed.

Lemma plus_minus n (v w : window n) : minus (plus v w) w = v.
Proof.
  induction n as [|n IH]; simpl; [reflexivity|destruct v as [z v]; simpl; rewrite IH; f_equal; lia].
Qed.

Lemma minus_plus n (v w : window n) : plus (minus v w) w = v.
Proof.
  induction n as [|n IH]; simpl; [reflexivity|destruct v as [z v]; simpl; rewrite IH; f_equal; lia].
Qed.

(* The number of points z with |z| <= R is (2R+1)^n. *)
Definition in_cube (r : nat) {n} (z : window n) : R := if (norm z <=? Z.of_nat r)%Z then 1 else 0.

Lemma in_cube_nonneg r n (z : window n) : 0 <= in_cube r z.
Proof. unfold in_cube; destruct (_ <=? _)%Z; lra. Qed.

Definition edge (r : nat) := 2 * INR r + 1.

Lemma edge_pos r : 0 < edge r.
Proof. unfold edge; pose proof (pos_INR r); lra. Qed.

Lemma total_one first k : total (fun _ => 1) (seq first k) = INR k.
Proof.
  revert first; induction k as [|k IH]; intros first; [reflexivity|].
  rewrite S_INR, <- (IH (S first)); simpl; ring.
Qed.

Lemma Sum_interval r : Sum (fun z => if (Z.abs z <=? Z.of_nat r)%Z then 1 else 0) (edge r).
Proof.
  set (f := fun z => if (Z.abs z <=? Z.of_nat r)%Z then 1 else 0).
  set (h := fun k => (Z.of_nat k - Z.of_nat r)%Z).
  replace (edge r) with (total f (map h (seq 0 (2 * r + 1)))).
  - apply (Sum_finite Z.eq_dec).
    + intros z; unfold f; destruct (_ <=? _)%Z; lra.
    + apply Injective_map_NoDup; [intros k k' E; unfold h in E; lia|apply seq_NoDup].
    + intros z Hz; unfold f; destruct (Z.leb_spec (Z.abs z) (Z.of_nat r)) as [L|]; [|reflexivity].
      destruct Hz; apply in_map_iff; exists (Z.to_nat (z + Z.of_nat r)); unfold h.
      rewrite in_seq; lia.
  - rewrite total_map, (total_ext _ (fun _ => 1)), total_one.
    + unfold edge; rewrite plus_INR, mult_INR; simpl; ring.
    + intros k Hk; apply in_seq in Hk; unfold f, h.
      destruct (Z.leb_spec (Z.abs (Z.of_nat k - Z.of_nat r)) (Z.of_nat r)); [reflexivity|lia].
Qed.

Lemma Sum_cube r n : Sum (in_cube r (n := n)) (edge r ^ n).
Proof.
  induction n as [|n IH].
  - replace (edge r ^ 0) with (total (in_cube r (n := 0)) [tt]).
    + apply (Sum_finite (window_dec 0)); [apply in_cube_nonneg|repeat constructor; auto|].
      intros []; simpl; intuition.
    + unfold in_cube; simpl; destruct (Z.leb_spec 0 (Z.of_nat r)); [lra|lia].
  - apply Prob_ext with
      (fun p : Z * window n => (if (Z.abs (fst p) <=? Z.of_nat r)%Z then 1 else 0) * in_cube r (snd p)) all.
    + intros [z v]; unfold in_cube; simpl.
      destruct (Z.leb_spec (Z.abs z) (Z.of_nat r)), (Z.leb_spec (norm v) (Z.of_nat r)),
        (Z.leb_spec (Z.max (Z.abs z) (norm v)) (Z.of_nat r)); try lra; lia.
    + tauto.
    + simpl; apply (Sum_product Z.eq_dec (fun z => if (Z.abs z <=? Z.of_nat r)%Z then 1 else 0)
        (in_cube r (n := n))); auto using Sum_interval.
      * intros z; destruct (_ <=? _)%Z; lra.
      * left; apply pow_lt, edge_pos.
Qed.

(* THEORY 2.1: the weight of a radius. *)
Definition radius_weight a n r := edge r ^ n * exp (- a * INR r).

Lemma radius_weight_nonneg a n r : 0 <= radius_weight a n r.
Proof. left; apply Rmult_lt_0_compat; [apply pow_lt, edge_pos|apply exp_pos]. Qed.
(* Sums over radii. *)

Section Radius.
  Variable a : R.
  Hypothesis a_pos : 0 < a.

  Let geometric (r : nat) := exp (- a * INR r).

  Lemma exp_a_lt_1 : 0 < 1 - exp (- a).
  Proof. assert (exp (- a) < exp 0) by (apply exp_increasing; lra); rewrite exp_0 in *; lra. Qed.

  Lemma geometric_pow r : geometric r = exp (- a) ^ r.
  Proof.
    unfold geometric; induction r as [|r IH]; [simpl; rewrite Rmult_0_r; apply exp_0|].
    rewrite S_INR; simpl; rewrite <- IH, <- exp_plus; f_equal; ring.
  Qed.

  Lemma total_geometric N : total geometric (seq 0 N) = (1 - exp (- a) ^ N) / (1 - exp (- a)).
  Proof.
    pose proof exp_a_lt_1; induction N as [|N IH]; [simpl; field; lra|].
    rewrite seq_S, total_app, IH; simpl; rewrite geometric_pow; field; lra.
  Qed.

  Lemma Sum_geometric : Sum geometric (/ (1 - exp (- a))).
  Proof.
    pose proof exp_a_lt_1 as H1; split.
    - intros l [Hd _].
      assert (exists N, incl l (seq 0 N)) as [N HN].
      { exists (S (fold_right max 0%nat l)); intros r Hr; apply in_seq.
        enough (r <= fold_right max 0%nat l)%nat by lia.
        clear -Hr; induction l as [|s l IH]; simpl in *; [tauto|].
        destruct Hr as [->|Hr]; [|specialize (IH Hr)]; lia. }
      apply Rle_trans with (total geometric (seq 0 N)).
      + apply total_incl; auto; intros r; left; apply exp_pos.
      + rewrite total_geometric; apply Rmult_le_reg_r with (1 - exp (- a)); auto; field_simplify; try lra.
        assert (0 < exp (- a) ^ N) by (apply pow_lt, exp_pos); lra.
    - intros u Hu; apply Rnot_lt_le; intros Hlt.
      set (e := 1 - exp (- a)) in *; set (gap := (/ e - u) * e).
      assert (0 < gap) by (apply Rmult_lt_0_compat; lra).
      destruct (pow_lt_1_zero (exp (- a))) with (y := gap) as [N HN]; auto.
      { rewrite Rabs_pos_eq; [unfold e in *; lra|left; apply exp_pos]. }
      specialize (HN N (Nat.le_refl N)); rewrite Rabs_pos_eq in HN by (left; apply pow_lt, exp_pos).
      specialize (Hu (seq 0 N)); rewrite total_geometric in Hu; fold e in Hu.
      assert ((1 - exp (- a) ^ N) / e <= u) by (apply Hu; split; [apply seq_NoDup|intros; exact I]).
      assert ((1 - exp (- a) ^ N) / e * e <= u * e) by (apply Rmult_le_compat_r; lra).
      replace ((1 - exp (- a) ^ N) / e * e) with (1 - exp (- a) ^ N) in * by (field; lra).
      unfold gap in *; replace ((/ e - u) * e) with (1 - u * e) in * by (field; lra); lra.
  Qed.

  (* Sum of e^(-aR) over R >= m. *)
  Lemma Sum_tail m : Sum (fun r => if (m <=? r)%nat then geometric r else 0) (geometric m / (1 - exp (- a))).
  Proof.
    apply (Sum_support _ (fun r => (m <=? r)%nat)); [intros r ->; reflexivity|].
    apply (Prob_bijection _ _ (fun r => (r + m)%nat)).
    - intros r r' E; lia.
    - intros r E; apply Nat.leb_le in E; exists (r - m)%nat; lia.
    - apply Prob_ext with (fun r => geometric m * geometric r) all.
      + intros r; replace (m <=? r + m)%nat with true by (symmetry; apply Nat.leb_le; lia).
        unfold geometric; rewrite <- exp_plus, plus_INR; f_equal; ring.
      + intros r; split; intros _; [apply Nat.leb_le; lia|exact I].
      + apply (Sum_scale _ (geometric m) _ (Rlt_le _ _ (exp_pos _)) Sum_geometric).
  Qed.
End Radius.

Theorem radius_weights_converge a n : 0 < a -> {W | 1 <= W /\ Sum (radius_weight a n) W}.
Proof.
  intros Ha.
  (* c (2R + 1) <= e^(2cR), and 2cn <= a/2. *)
  set (c := a / (4 * INR n + 4 + a)).
  pose proof (pos_INR n) as Hn.
  assert (Hc : 0 < c) by (apply Rdiv_lt_0_compat; lra).
  assert (Hc1 : c <= 1) by (unfold c; apply Rmult_le_reg_r with (4 * INR n + 4 + a); [lra|field_simplify; lra]).
  assert (Hcn : 2 * c * INR n <= a / 2).
  { apply Rmult_le_reg_r with (4 * INR n + 4 + a); [lra|].
    replace (2 * c * INR n * (4 * INR n + 4 + a)) with (2 * a * INR n) by (unfold c; field; lra); nra. }
  destruct (Prob_exists (radius_weight a n) all ((/ c) ^ n * / (1 - exp (- (a / 2))))) as [W HW].
  - intros l Hl.
    apply Rle_trans with (total (fun r => (/ c) ^ n * exp (- (a / 2) * INR r)) l).
    + apply total_le; intros r _; unfold radius_weight.
      pose proof (pos_INR r) as Hr.
      assert (E : edge r <= / c * exp (2 * c * INR r)).
      { apply Rmult_le_reg_l with c; [auto|]; rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra.
        apply Rle_trans with (1 + 2 * c * INR r); [unfold edge; nra|].
        destruct (Req_dec (2 * c * INR r) 0) as [->|N0]; [rewrite exp_0; lra|left; apply exp_ineq1; exact N0]. }
      apply Rle_trans with ((/ c * exp (2 * c * INR r)) ^ n * exp (- a * INR r)).
      * apply Rmult_le_compat_r; [left; apply exp_pos|apply pow_incr; split; [left; apply edge_pos|exact E]].
      * rewrite Rpow_mult_distr, Rmult_assoc.
        apply Rmult_le_compat_l; [left; apply pow_lt, Rinv_0_lt_compat; auto|].
        assert (P : forall m, exp (2 * c * INR r) ^ m = exp (INR m * (2 * c * INR r))).
        { induction m as [|m IH]; [simpl; rewrite Rmult_0_l, exp_0; reflexivity|].
          rewrite S_INR; simpl; rewrite IH, <- exp_plus; f_equal; ring. }
        rewrite P, <- exp_plus.
        assert (L : INR n * (2 * c * INR r) + - a * INR r <= - (a / 2) * INR r) by nra.
        destruct L as [L|L]; [left; apply exp_increasing; exact L|rewrite L; lra].
    + rewrite total_scale; apply Rmult_le_compat_l; [left; apply pow_lt, Rinv_0_lt_compat; auto|].
      apply (Sum_geometric (a / 2)); [lra|auto].
  - exists W; split; [|exact HW].
    apply Rle_trans with (radius_weight a n 0).
    + unfold radius_weight, edge; simpl; rewrite Rmult_0_r, Rplus_0_l, pow1, Rmult_0_r, exp_0; lra.
    + apply (Sum_term _ _ _ HW).
Qed.

Definition noise_weight a {n} (z : window n) := exp (- a * IZR (norm z)).

Section Law.
  Variables (a : R) (n : nat) (W : R).
  Hypothesis a_pos : 0 < a.
  Hypothesis W_sum : Sum (radius_weight a n) W.

  (* The constant that normalises the noise. *)
  Definition constant := (1 - exp (- a)) * W.

  (* The mass of R, and of z given R. *)
  Definition radius (r : nat) := radius_weight a n r / W.
  Definition uniform (r : nat) (z : window n) := in_cube r z / edge r ^ n.
  Definition noise (z : window n) := noise_weight a z / constant.

  Lemma W_pos : 0 < W.
  Proof.
    destruct (radius_weights_converge a n a_pos) as [W' [H1 H2]].
    rewrite (Prob_unique _ _ _ _ W_sum H2); lra.
  Qed.

  Lemma constant_pos : 0 < constant.
  Proof. apply Rmult_lt_0_compat; [apply exp_a_lt_1; auto|apply W_pos]. Qed.

  Lemma radius_law : law radius.
  Proof.
    pose proof W_pos; split.
    - intros r; apply Rmult_le_pos; [apply radius_weight_nonneg|left; apply Rinv_0_lt_compat; auto].
    - apply Prob_ext with (fun r => / W * radius_weight a n r) all; [intros; unfold radius; field; lra|tauto|].
      rewrite <- (Rinv_l W) by lra; apply Sum_scale; [left; apply Rinv_0_lt_compat|]; auto.
  Qed.

  Lemma uniform_law r : law (uniform r).
  Proof.
    assert (E : 0 < edge r ^ n) by apply pow_lt, edge_pos; split.
    - intros z; apply Rmult_le_pos; [apply in_cube_nonneg|left; apply Rinv_0_lt_compat; auto].
    - apply Prob_ext with (fun z => / edge r ^ n * in_cube r z) all; [intros; unfold uniform; field; lra|tauto|].
      rewrite <- (Rinv_l (edge r ^ n)) by lra; apply Sum_scale; [left; apply Rinv_0_lt_compat; auto|apply Sum_cube].
  Qed.

  (* THEORY 2.1, theorem: a radius, and a uniform point of its cube, give the l_inf Laplace law. *)
  Theorem radius_then_uniform z : Sum (fun r => radius r * uniform r z) (noise z).
  Proof.
    pose proof W_pos as HW; pose proof (exp_a_lt_1 a a_pos) as He.
    apply Prob_ext with (fun r => / W * (if (Z.to_nat (norm z) <=? r)%nat then exp (- a * INR r) else 0)) all;
      [|tauto|].
    - intros r; assert (0 < edge r ^ n) by apply pow_lt, edge_pos.
      unfold radius, uniform, radius_weight, in_cube; pose proof (norm_nonneg n z).
      destruct (Z.leb_spec (norm z) (Z.of_nat r)), (Nat.leb_spec (Z.to_nat (norm z)) r); try lia; field; lra.
    - replace (noise z) with (/ W * (exp (- a * INR (Z.to_nat (norm z))) / (1 - exp (- a)))).
      + apply Sum_scale; [left; apply Rinv_0_lt_compat; auto|apply Sum_tail; auto].
      + unfold noise, noise_weight, constant.
        rewrite INR_IZR_INZ, Z2Nat.id by apply norm_nonneg; field; lra.
  Qed.

  Theorem noise_law : law noise.
  Proof.
    assert (Hf : forall (x : unit), law ((fun _ => noise) x)); [|exact (Hf tt)].
    apply (postprocessing_law Nat.eq_dec (window_dec n) (fun _ => radius) uniform (fun _ => noise)).
    - intros _; apply radius_law.
    - apply uniform_law.
    - intros _ z; apply radius_then_uniform.
  Qed.

  (* The weights e^(-a|z|) add up to (1 - e^-a) W. *)
  Theorem normaliser : Sum (noise_weight a (n := n)) constant.
  Proof.
    pose proof constant_pos as Hc.
    apply Prob_ext with (fun z => constant * noise z) all; [intros z; unfold noise; field; lra|tauto|].
    apply Sum_scale_one; [lra|apply noise_law].
  Qed.

  Lemma noise_odds v w : noise v <= exp (a * IZR (dist v w)) * noise w.
  Proof.
    pose proof constant_pos as Hc; unfold noise, Rdiv; rewrite <- Rmult_assoc; apply Rmult_le_compat_r.
    - left; apply Rinv_0_lt_compat; auto.
    - unfold noise_weight; rewrite <- exp_plus.
      assert (L : - a * IZR (norm v) <= a * IZR (dist v w) + - a * IZR (norm w)).
      { assert (N : (norm w <= dist v w + norm v)%Z).
        { clear; unfold dist; induction n as [|m IH]; simpl; [lia|].
          specialize (IH (snd v) (snd w)); pose proof (norm_nonneg m (minus (snd v) (snd w)));
            pose proof (norm_nonneg m (snd v)); lia. }
        apply IZR_le in N; rewrite plus_IZR in N; nra. }
      destruct L as [L|L]; [left; apply exp_increasing; auto|rewrite L; lra].
  Qed.

  (* What leaves: x + z. *)
  Definition release (x y : window n) := noise (minus y x).

  Theorem release_law x : law (release x).
  Proof.
    split; [intros y; apply noise_law|].
    apply (Prob_bijection noise all (fun y => minus y x)); [| |apply noise_law].
    - intros y y' E; rewrite <- (minus_plus n y x), E, minus_plus; reflexivity.
    - intros z _; exists (plus z x); apply plus_minus.
  Qed.

  (* THEORY 2.1, theorem: the release is exactly eps d_inf-private. *)
  Theorem release_private : private (fun x x' => a * IZR (dist x x')) release.
  Proof.
    apply private_iff_odds; [intros; apply noise_law|].
    intros x x' y; unfold release; rewrite <- (minus_minus n y x x'); apply noise_odds.
  Qed.
End Law.

(* Loads that react to what left: the first value, and all the others given the first output. *)

Fixpoint strategy (n : nat) : Type :=
  match n with O => unit | S m => (Z * (Z -> strategy m))%type end.

(* The outputs, of the noise. *)
Fixpoint outputs {n} : strategy n -> window n -> window n :=
  match n with
  | O => fun _ z => z
  | S m => fun s z => let y := (fst s + fst z)%Z in (y, outputs (snd s y) (snd z))
  end.

(* The values that the load had, given the outputs. *)
Fixpoint values {n} : strategy n -> window n -> window n :=
  match n with O => fun _ y => y | S m => fun s y => (fst s, values (snd s (fst y)) (snd y)) end.

(* After all outputs the candidates of a slot differ by at most D quanta. *)
Fixpoint near {n} (D : Z) : strategy n -> strategy n -> Prop :=
  match n with
  | O => fun _ _ => True
  | S m => fun s s' => (Z.abs (fst s - fst s') <= D)%Z /\ forall y, near D (snd s y) (snd s' y)
  end.

Lemma outputs_minus n (s : strategy n) y : outputs s (minus y (values s y)) = y.
Proof.
  induction n as [|n IH]; [reflexivity|destruct y as [y v]; simpl].
  replace (fst s + (y - fst s))%Z with y by lia; rewrite IH; reflexivity.
Qed.

Lemma minus_outputs n (s : strategy n) z : minus (outputs s z) (values s (outputs s z)) = z.
Proof.
  induction n as [|n IH]; [reflexivity|destruct z as [z v]; simpl].
  rewrite IH; f_equal; lia.
Qed.

Lemma near_values n D (s s' : strategy n) y : (0 <= D)%Z -> near D s s' -> (dist (values s y) (values s' y) <= D)%Z.
Proof.
  intros HD; unfold dist; induction n as [|n IH]; simpl; [auto|intros [H1 H2]].
  specialize (IH _ _ (snd y) (H2 (fst y))); lia.
Qed.

(* The mass of the outputs y, if f is that of the noise. *)
Definition view {n} (f : window n -> R) (s : strategy n) (y : window n) := f (minus y (values s y)).

Lemma view_of_noise n (f : window n -> R) (s : strategy n) A p :
  Prob f (fun z => A (outputs s z)) p <-> Prob (view f s) A p.
Proof.
  rewrite (Prob_bijection f (fun z => A (outputs s z)) (fun y => minus y (values s y))).
  - split; apply Prob_ext; try reflexivity; intros y; rewrite outputs_minus; tauto.
  - intros y y' E; rewrite <- (outputs_minus n s y), E, outputs_minus; reflexivity.
  - intros z _; exists (outputs s z); apply minus_outputs.
Qed.

Lemma view_law n (f : window n -> R) s : law f -> law (view f s).
Proof.
  intros [H0 H1]; split; [intros y; apply H0|].
  apply (view_of_noise n f s all); exact H1.
Qed.

Lemma view_odds n a (f : window n -> R) D (s s' : strategy n) y :
  0 <= a -> (0 <= D)%Z -> (forall z, 0 <= f z) -> (forall v w, f v <= exp (a * IZR (dist v w)) * f w) ->
    near D s s' ->
  view f s y <= exp (a * IZR D) * view f s' y.
Proof.
  intros Ha HD Hf Hodds Hn; unfold view.
  eapply Rle_trans; [apply (Hodds _ (minus y (values s' y)))|].
  apply Rmult_le_compat_r; [auto|]; rewrite minus_minus.
  assert (L : a * IZR (dist (values s y) (values s' y)) <= a * IZR D).
  { apply Rmult_le_compat_l, IZR_le, near_values; auto. }
  destruct L as [L|L]; [left; apply exp_increasing; auto|rewrite L; lra].
Qed.

(* THEORY 3.1, theorem. Stopping early, or seeing a prefix only, is an event or a function of all outputs. *)
Theorem adaptive_release n a (f : window n -> R) D (s s' : strategy n) :
  0 <= a -> (0 <= D)%Z -> (forall z, 0 <= f z) -> (forall v w, f v <= exp (a * IZR (dist v w)) * f w) ->
    near D s s' ->
  forall A p p', Prob f (fun z => A (outputs s z)) p -> Prob f (fun z => A (outputs s' z)) p' ->
    p <= exp (a * IZR D) * p'.
Proof.
  intros Ha HD Hf Hodds Hn A p p' Hp Hp'; apply view_of_noise in Hp, Hp'.
  apply (Prob_le _ _ _ _ _ _ (Rlt_le _ _ (exp_pos _))) with (2 := Hp) (3 := Hp').
  intros y _; apply view_odds; auto.
Qed.
