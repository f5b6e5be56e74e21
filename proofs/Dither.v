(* Energies as whole quanta by dithered rounding, and what the disk holds of them. *)

From Coq Require Import Bool List ZArith Lia Reals Lra FinFun.
From Proofs Require Import Sums Privacy Rounding Window.
Import ListNotations.
Open Scope R_scope.

(* Windows: units per quantum L, dithers u, energies S, noises z, one of each per slot. *)

Fixpoint positive {n} : window n -> Prop :=
  match n with O => fun _ => True | S m => fun L => (0 < fst L)%Z /\ positive (snd L) end.

Fixpoint quotient {n} : window n -> window n -> window n :=
  match n with O => fun v _ => v | S m => fun v L => ((fst v / fst L)%Z, quotient (snd v) (snd L)) end.

Fixpoint times {n} : window n -> window n -> window n :=
  match n with O => fun v _ => v | S m => fun v L => ((fst v * fst L)%Z, times (snd v) (snd L)) end.

(* max over i of ceil(|S_i - S'_i| / L_i), which is ceil(d). *)
Fixpoint whole {n} : window n -> window n -> window n -> Z :=
  match n with
  | O => fun _ _ _ => 0%Z
  | S m => fun L S S' => Z.max (ceil_div (Z.abs (fst S - fst S')) (fst L)) (whole (snd L) (snd S) (snd S'))
  end.

Definition rounded {n} (L u S : window n) := quotient (plus u S) L.

Lemma coupling_window n (L u S S' : window n) : positive L ->
  (dist (rounded L u S) (rounded L u S') <= whole L S S')%Z.
Proof.
  unfold dist, rounded; induction n as [|n IH]; simpl; [lia|intros [H1 H2]].
  specialize (IH _ (snd u) (snd S) (snd S') H2); pose proof (coupling (fst L) (fst u) (fst S) (fst S') H1); lia.
Qed.

(* THEORY 3.4, with the dither of A.0: the floor of the accumulator z L + u + S is z plus the rounded energy. *)
Theorem accumulator n (L u S z : window n) : positive L ->
  quotient (plus (times z L) (plus u S)) L = plus z (rounded L u S).
Proof.
  unfold rounded; induction n as [|n IH]; simpl; [reflexivity|intros [H1 H2]].
  rewrite IH by auto; f_equal; rewrite Z.add_comm, Z.div_add by lia; lia.
Qed.

Section Dithered.
  Variables (a : R) (n : nat) (W : R) (L : window n).
  Hypothesis a_pos : 0 < a.
  Hypothesis W_sum : Sum (radius_weight a n) W.
  Hypothesis L_pos : positive L.

  Lemma whole_loss v w S S' : (dist v w <= whole L S S')%Z ->
    noise a n W v <= exp (a * IZR (whole L S S')) * noise a n W w.
  Proof.
    intros H; eapply Rle_trans; [apply noise_odds; eauto|].
    apply Rmult_le_compat_r; [apply noise_law; auto|].
    assert (E : a * IZR (dist v w) <= a * IZR (whole L S S')) by (apply Rmult_le_compat_l, IZR_le; lra || auto).
    destruct E as [E|E]; [left; apply exp_increasing; auto|rewrite E; lra].
  Qed.

  Section Release.
    (* Any law of the dithers: the uniform one ([dither_law]), or a constant. *)
    Variables (g : window n -> R) (dithered : window n -> window n -> R).
    Hypothesis g_law : law g.
    Hypothesis averaged : forall S y, Sum (fun u => g u * release a n W (rounded L u S) y) (dithered S y).

    Theorem dithered_law S : law (dithered S).
    Proof.
      apply (mixture_law (window_dec n) (window_dec n) g (fun u S => release a n W (rounded L u S)) dithered); auto.
      intros; apply release_law; auto.
    Qed.

    (* THEORY A.1.2 and T.5: the loss is at most a ceil(d), for every n. *)
    Theorem dithered_private : private (fun S S' => a * IZR (whole L S S')) dithered.
    Proof.
      apply (mixture _ g (fun u S => release a n W (rounded L u S)) dithered); auto.
      { intros; apply release_law; auto. }
      intros u; apply private_iff_odds; [intros; apply noise_law; auto|].
      intros S S' y; apply whole_loss; rewrite minus_minus; apply coupling_window; auto.
    Qed.
  End Release.

  (* THEORY A.1.7: worlds whose loads react to what left, with slots within D quanta of each other. *)
  Section Adaptive.
    Fixpoint rounded_strategy {m} : window m -> window m -> strategy m -> strategy m :=
      match m with
      | O => fun _ _ s => s
      | S k => fun L u s => (((fst u + fst s) / fst L)%Z, fun y => rounded_strategy (snd L) (snd u) (snd s y))
      end.

    Fixpoint within {m} (D : Z) : window m -> strategy m -> strategy m -> Prop :=
      match m with
      | O => fun _ _ _ => True
      | S k => fun L s s' => (ceil_div (Z.abs (fst s - fst s')) (fst L) <= D)%Z /\
          forall y, within D (snd L) (snd s y) (snd s' y)
      end.

    Lemma within_near m D (K u : window m) s s' : positive K -> within D K s s' ->
      near D (rounded_strategy K u s) (rounded_strategy K u s').
    Proof.
      induction m as [|m IH]; simpl; [auto|intros [H1 H2] [H3 H4]; split; [|auto]].
      pose proof (coupling (fst K) (fst u) (fst s) (fst s') H1); lia.
    Qed.

    Variables (World : Type) (D : Z) (load : World -> strategy n) (g : window n -> R) (seen : World ->
      window n -> R).
    Hypothesis D_nonneg : (0 <= D)%Z.
    Hypothesis near_worlds : forall b b', within D L (load b) (load b').
    Hypothesis g_law : law g.
    Hypothesis averaged : forall b y,
      Sum (fun u => g u * view (noise a n W) (rounded_strategy L u (load b)) y) (seen b y).

    Theorem adaptive_dithered : private (fun _ _ => a * IZR D) seen.
    Proof.
      apply (mixture _ g (fun u b => view (noise a n W) (rounded_strategy L u (load b))) seen); auto.
      { intros; apply view_law, noise_law; auto. }
      intros u; apply private_iff_odds; [intros; apply view_law, noise_law; auto|].
      intros b b' y; apply view_odds; [lra|auto|apply noise_law; auto| |].
      - intros; apply noise_odds; auto.
      - apply within_near; auto.
    Qed.
  End Adaptive.

  (* One copy of the disk. *)
  Section Copy.
    Fixpoint volume {m} : window m -> R := match m with O => fun _ => 1 | S k => fun L => IZR (fst L) * volume
      (snd L) end.

    Fixpoint in_box {m} : window m -> window m -> bool :=
      match m with
      | O => fun _ _ => true
      | S k => fun L u => ((0 <=? fst u)%Z && (fst u <? fst L)%Z && in_box (snd L) (snd u))%bool
      end.

    Fixpoint remainder {m} : window m -> window m -> window m :=
      match m with O => fun v _ => v | S k => fun v L => ((fst v mod fst L)%Z, remainder (snd v) (snd L)) end.

    (* u is uniform on {0, .., L - 1} in each slot. *)
    Definition dither (u : window n) := if in_box L u then / volume L else 0.

    (* The mass of the accumulators v. *)
    Definition copy (S v : window n) := noise a n W (quotient (minus v S) L) * / volume L.

    Lemma volume_pos m (K : window m) : positive K -> 0 < volume K.
    Proof.
      induction m as [|m IH]; simpl; [lra|intros [H1 H2]].
      apply Rmult_lt_0_compat; auto; apply IZR_lt; auto.
    Qed.

    Lemma in_box_remainder m (v K : window m) : positive K -> in_box K (remainder v K) = true.
    Proof.
      induction m as [|m IH]; simpl; [reflexivity|intros [H1 H2]; rewrite IH by auto].
      pose proof (Z.mod_pos_bound (fst v) (fst K) H1); destruct (Z.leb_spec 0 (fst v mod fst K)),
        (Z.ltb_spec (fst v mod fst K) (fst K)); try lia; reflexivity.
    Qed.

    Lemma divide m (v K S : window m) : positive K ->
      plus (times (quotient (minus v S) K) K) (plus (remainder (minus v S) K) S) = v.
    Proof.
      induction m as [|m IH]; simpl; [reflexivity|intros [H1 H2]; destruct v as [z v]; simpl; rewrite IH by auto].
      f_equal; pose proof (Z.div_mod (z - fst S) (fst K)); lia.
    Qed.

    Lemma undivide m (z u K S : window m) : positive K -> in_box K u = true ->
      quotient (minus (plus (times z K) (plus u S)) S) K
        = z /\ remainder (minus (plus (times z K) (plus u S)) S) K = u.
    Proof.
      induction m as [|m IH]; [destruct z, u; auto|].
      destruct z as [z w], u as [u u'], K as [k K], S as [e S]; simpl; intros [H1 H2] Hb.
      apply andb_prop in Hb as [Hb H3]; apply andb_prop in Hb as [H4 H5]; apply Z.leb_le in H4;
        apply Z.ltb_lt in H5.
      destruct (IH w u' K S H2 H3) as [E1 E2].
      replace (z * k + (u + e) - e)%Z with (u + z * k)%Z by ring.
      rewrite Z.div_add, Z.mod_add, Z.div_small, Z.mod_small by lia.
      split; (apply f_equal2; [reflexivity|assumption]).
    Qed.

    (* The accumulators are z L + u + S, z and u independent. *)
    Theorem copy_of_noise S A p :
      Prob (fun zu => noise a n W (fst zu) * dither (snd zu)) (fun zu => A (plus (times (fst zu) L) (plus (snd
        zu) S))) p <->
      Prob (copy S) A p.
    Proof.
      rewrite <- (Prob_support _ _ (fun zu => in_box L (snd zu))).
      2: { intros [z u] E; unfold dither; simpl in *; rewrite E; ring. }
      rewrite (Prob_bijection _ _ (fun v => (quotient (minus v S) L, remainder (minus v S) L))).
      - split; apply Prob_ext; intros v; unfold copy, dither; simpl; rewrite ?in_box_remainder, ?divide by auto;
        tauto.
      - intros v v' E; injection E as E1 E2; rewrite <- (divide n v L S), E1, E2 by auto; apply divide; auto.
      - intros [z u] [_ E]; exists (plus (times z L) (plus u S)); simpl in E.
        destruct (undivide n z u L S L_pos E) as [-> ->]; reflexivity.
    Qed.

    Lemma Sum_units l : (0 < l)%Z -> Sum (fun z => if (0 <=? z)%Z && (z <? l)%Z then 1 else 0) (IZR l).
    Proof.
      intros Hl; set (f := fun z => if (0 <=? z)%Z && (z <? l)%Z then 1 else 0).
      replace (IZR l) with (total f (map Z.of_nat (seq 0 (Z.to_nat l)))).
      - apply (Sum_finite Z.eq_dec).
        + intros z; unfold f; destruct (_ && _); lra.
        + apply Injective_map_NoDup; [intros k k' E; lia|apply seq_NoDup].
        + intros z Hz; unfold f; destruct (Z.leb_spec 0 z), (Z.ltb_spec z l); simpl; try reflexivity.
          destruct Hz; apply in_map_iff; exists (Z.to_nat z); rewrite in_seq; lia.
      - rewrite total_map, (total_ext _ (fun _ => 1)), total_one.
        + rewrite INR_IZR_INZ, Z2Nat.id by lia; reflexivity.
        + intros k Hk; apply in_seq in Hk; unfold f.
          destruct (Z.leb_spec 0 (Z.of_nat k)), (Z.ltb_spec (Z.of_nat k) l); simpl; lia || reflexivity.
    Qed.

    Lemma Sum_box m (K : window m) : positive K -> Sum (fun u => if in_box K u then 1 else 0) (volume K).
    Proof.
      induction m as [|m IH]; intros HK.
      - replace (volume K) with (total (fun u : window 0 => if in_box K u then 1 else 0) [tt]) by (simpl; lra).
        apply (Sum_finite (window_dec 0)); [intros; destruct (in_box K t); lra|repeat constructor; auto|].
        intros []; simpl; intuition.
      - destruct HK as [H1 H2].
        apply Prob_ext with (fun p : Z * window m => (if (0 <=? fst p)%Z && (fst p <? fst K)%Z then 1 else 0) *
          (if in_box (snd K) (snd p) then 1 else 0)) all; [|tauto|].
        + intros [z v]; simpl; destruct ((0 <=? z)%Z && (z <? fst K)%Z), (in_box (snd K) v); simpl; lra.
        + apply (Sum_product Z.eq_dec (fun z => if (0 <=? z)%Z && (z <? fst K)%Z then 1 else 0)
            (fun v => if in_box (snd K) v then 1 else 0));
            [|left; apply volume_pos; auto|apply Sum_units; auto|auto].
          intros z; destruct (_ && _); lra.
    Qed.

    Theorem dither_law : law dither.
    Proof.
      pose proof (volume_pos n L L_pos) as Hv; pose proof (Rinv_0_lt_compat _ Hv) as Hi; split.
      - intros u; unfold dither; destruct (in_box L u); lra.
      - apply Prob_ext with (fun u => / volume L * (if in_box L u then 1 else 0)) all; [|tauto|].
        + intros u; unfold dither; destruct (in_box L u); lra.
        + pose proof (Sum_scale _ (/ volume L) _ (Rlt_le _ _ Hi) (Sum_box n L L_pos)) as E.
          rewrite Rinv_l in E by lra; exact E.
    Qed.

    Theorem copy_law S : law (copy S).
    Proof.
      split.
      - intros v; apply Rmult_le_pos; [apply noise_law; auto|left; apply Rinv_0_lt_compat, volume_pos; auto].
      - apply (copy_of_noise S all).
        apply Prob_ext with (fun zu : window n * window n => noise a n W (fst zu) * dither (snd zu)) all;
          [reflexivity|tauto|].
        pose proof (Sum_product (window_dec n) (noise a n W) dither 1 1) as E; rewrite Rmult_1_r in E.
        destruct (noise_law a n W a_pos W_sum) as [N0 N1]; apply E; [exact N0|lra|exact N1|apply dither_law].
    Qed.

    (* THEORY A.1.5: the loss of one copy. *)
    Theorem copy_private : private (fun S S' => a * IZR (whole L S S')) copy.
    Proof.
      assert (Hv : 0 <= / volume L) by (left; apply Rinv_0_lt_compat, volume_pos; auto).
      apply private_iff_odds; [intros; apply Rmult_le_pos; [apply noise_law|]; auto|].
      intros S S' v; unfold copy; rewrite <- Rmult_assoc; apply Rmult_le_compat_r; [auto|].
      apply whole_loss; clear Hv; revert L_pos; generalize L; clear; intros K.
      unfold dist; induction n as [|m IH]; simpl; [lia|intros [H1 H2]].
      specialize (IH (snd S) (snd S') (snd v) _ H2).
      pose proof (coupling (fst K) (fst v) (- fst S) (- fst S') H1) as E.
      replace (Z.abs (- fst S - - fst S')) with (Z.abs (fst S - fst S')) in E by lia.
      unfold Z.sub at 1; rewrite <- !Z.add_opp_r in *; lia.
    Qed.

    (* THEORY A.1.6: later copies, and the release, if the same energies are added in both worlds. *)
    Definition copies (later : list (window n)) last v := (v :: map (plus v) later, quotient (plus v last) L).

    Theorem copies_private later last S S' A p p' :
      Prob (copy S) (fun v => A (copies later last v)) p -> Prob (copy S') (fun v => A (copies later last v)) p' ->
      p <= exp (a * IZR (whole L S S')) * p'.
    Proof. apply copy_private. Qed.
  End Copy.
End Dithered.
