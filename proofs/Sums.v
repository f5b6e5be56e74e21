(* Sums of non-negative numbers over any set: the least upper bound of all finite sums.

   A finite sum is over a list without duplicates, so no order of the elements matters, and a law on a
   countable set needs no enumeration. [Prob f A p] says that the masses [f] of the event [A] add up to [p]. *)

From Coq Require Import List Arith Lia Reals Lra FinFun.
Import ListNotations.
Open Scope R_scope.

Definition eq_dec (T : Type) := forall t t' : T, {t = t'} + {t <> t'}.

Section Finite.
  Context {T : Type}.
  Implicit Types (f g : T -> R) (A : T -> Prop) (l : list T).

  Definition total f l : R := fold_right (fun t s => f t + s) 0 l.

  Lemma total_app f l l' : total f (l ++ l') = total f l + total f l'.
  Proof. induction l as [|t l IH]; simpl; [lra|rewrite IH; lra]. Qed.

  Lemma total_ext f g l : (forall t, In t l -> f t = g t) -> total f l = total g l.
  Proof. induction l as [|t l IH]; simpl; intros H; [reflexivity|rewrite H, IH; auto]. Qed.

  Lemma total_le f g l : (forall t, In t l -> f t <= g t) -> total f l <= total g l.
  Proof.
    induction l as [|t l IH]; simpl; intros H; [lra|].
    apply Rplus_le_compat; [apply H; auto|apply IH; auto].
  Qed.

  Lemma total_scale c f l : total (fun t => c * f t) l = c * total f l.
  Proof. induction l as [|t l IH]; simpl; [lra|rewrite IH; lra]. Qed.

  Lemma total_nonneg f l : (forall t, 0 <= f t) -> 0 <= total f l.
  Proof. intros H; induction l as [|t l IH]; simpl; [lra|specialize (H t); lra]. Qed.

  Lemma total_incl f l l' : (forall t, 0 <= f t) -> NoDup l -> incl l l' -> total f l <= total f l'.
  Proof.
    intros Hf; revert l'; induction l as [|t l IH]; intros l' Hd Hi; simpl; [apply total_nonneg; auto|].
    inversion_clear Hd as [|? ? Hn Hd'].
    destruct (in_split t l') as (l1 & l2 & ->); [apply Hi; left; auto|].
    rewrite total_app; simpl.
    assert (total f l <= total f (l1 ++ l2)); [|rewrite total_app in *; lra].
    apply IH; auto. intros u Hu.
    specialize (Hi u (or_intror Hu)). apply in_app_iff in Hi; simpl in Hi; apply in_app_iff.
    destruct Hi as [Hi|[<-|Hi]]; [left; exact Hi|destruct (Hn Hu)|right; exact Hi].
  Qed.

  Lemma total_filter f (b : T -> bool) l :
    total f l = total f (filter b l) + total f (filter (fun t => negb (b t)) l).
  Proof. induction l as [|t l IH]; simpl; [lra|destruct (b t); simpl; lra]. Qed.

  (* A finite part of the event: what the probability is the least upper bound of. *)
  Definition part A l := NoDup l /\ forall t, In t l -> A t.

  Definition bound f A u := forall l, part A l -> total f l <= u.

  Definition Prob f A p := bound f A p /\ forall u, bound f A u -> p <= u.

  Definition all (_ : T) := True.

  Definition Sum f s := Prob f all s.

  Definition law f := (forall t, 0 <= f t) /\ Sum f 1.

  Lemma part_nil A : part A [].
  Proof. split; [constructor|intros t []]. Qed.

  Lemma Prob_unique f A p p' : Prob f A p -> Prob f A p' -> p = p'.
  Proof. intros [H1 H2] [H3 H4]; apply Rle_antisym; auto. Qed.

  Lemma Prob_nonneg f A p : Prob f A p -> 0 <= p.
  Proof. intros [H _]; exact (H [] (part_nil A)). Qed.

  Definition Prob_exists f A u : bound f A u -> {p | Prob f A p}.
  Proof.
    intros H.
    destruct (completeness (fun r => exists l, part A l /\ r = total f l)) as [p [H1 H2]].
    - exists u; intros r (l & Hl & ->); auto.
    - exists 0, []; split; [apply part_nil|reflexivity].
    - exists p; split.
      + intros l Hl; apply H1; exists l; auto.
      + intros v Hv; apply H2; intros r (l & Hl & ->); auto.
  Defined.

  Lemma Prob_ext f g A B p : (forall t, f t = g t) -> (forall t, A t <-> B t) -> Prob f A p -> Prob g B p.
  Proof.
    intros Hf HA [H1 H2]; split.
    - intros l [Hd Hl]; rewrite <- (total_ext f g) by auto.
      apply H1; split; [auto|intros t Ht; apply HA; auto].
    - intros u Hu; apply H2; intros l [Hd Hl]; rewrite (total_ext f g) by auto.
      apply Hu; split; [auto|intros t Ht; apply HA; auto].
  Qed.

  Lemma Prob_le f g A p p' c : 0 <= c -> (forall t, A t -> f t <= c * g t) ->
    Prob f A p -> Prob g A p' -> p <= c * p'.
  Proof.
    intros Hc H [_ H2] [H3 _]; apply H2; intros l Hl.
    apply Rle_trans with (c * total g l).
    - rewrite <- total_scale; apply total_le; intros t Ht; apply H, Hl, Ht.
    - apply Rmult_le_compat_l; auto.
  Qed.

  Lemma Sum_scale f c s : 0 <= c -> Sum f s -> Sum (fun t => c * f t) (c * s).
  Proof.
    intros Hc [H1 H2]; split.
    - intros l Hl; rewrite total_scale; apply Rmult_le_compat_l; auto.
    - intros u Hu; destruct Hc as [Hc| <-].
      + assert (s <= u / c).
        { apply H2; intros l Hl; specialize (Hu l Hl); rewrite total_scale in Hu.
          apply Rmult_le_reg_l with c; auto; field_simplify; lra. }
        apply Rmult_le_compat_l with (r := c) in H; [|lra].
        replace (c * (u / c)) with u in H by (field; lra); exact H.
      + rewrite Rmult_0_l; exact (Hu [] (part_nil _)).
  Qed.

  Lemma Sum_scale_one f c : 0 <= c -> Sum f 1 -> Sum (fun t => c * f t) c.
  Proof. intros Hc H; pose proof (Sum_scale f c 1 Hc H) as E; rewrite Rmult_1_r in E; exact E. Qed.

  Lemma Prob_one f t : (forall t, 0 <= f t) -> Prob f (eq t) (f t).
  Proof.
    intros Hf; split.
    - intros l [Hd Hl]; replace (f t) with (total f [t]) by (simpl; lra).
      apply total_incl; auto; intros u Hu; left; apply Hl; auto.
    - intros u Hu; replace (f t) with (total f [t]) by (simpl; lra).
      apply Hu; split; [repeat constructor; auto|simpl; intuition].
  Qed.

  Lemma Sum_term f s t : Sum f s -> f t <= s.
  Proof.
    intros [H _]; replace (f t) with (total f [t]) by (simpl; lra).
    apply H; split; [repeat constructor; auto|intros; exact I].
  Qed.

  (* Masses that vanish outside a finite list. *)
  Lemma Sum_finite (D : eq_dec T) f l : (forall t, 0 <= f t) -> NoDup l ->
    (forall t, ~ In t l -> f t = 0) -> Sum f (total f l).
  Proof.
    intros Hf Hd H0; split.
    - intros l' [Hd' _].
      set (b := fun t => if in_dec D t l then true else false).
      rewrite (total_filter f b).
      replace (total f (filter (fun t => negb (b t)) l')) with 0.
      + rewrite Rplus_0_r; apply total_incl; auto; [apply NoDup_filter; auto|].
        intros t Ht; apply filter_In in Ht; destruct Ht as [_ Ht]; unfold b in Ht.
        destruct (in_dec D t l); [auto|discriminate].
      + symmetry; rewrite (total_ext f (fun t => 0 * f t)); [rewrite total_scale; lra|].
        intros t Ht; apply filter_In in Ht; destruct Ht as [_ Ht]; unfold b in Ht.
        destruct (in_dec D t l); [discriminate|rewrite H0; auto; lra].
    - intros u Hu; apply Hu; split; [auto|intros; exact I].
  Qed.
End Finite.

Lemma total_map {S T} (f : T -> R) (h : S -> T) l : total f (map h l) = total (fun s => f (h s)) l.
Proof. induction l as [|s l IH]; simpl; [reflexivity|rewrite IH; reflexivity]. Qed.

(* Masses at the images under a map that is one to one and reaches all of the event. *)
Lemma Prob_bijection {S T} (f : T -> R) (A : T -> Prop) (h : S -> T) p :
  Injective h -> (forall t, A t -> exists s, h s = t) ->
  (Prob f A p <-> Prob (fun s => f (h s)) (fun s => A (h s)) p).
Proof.
  intros Hi Hs.
  assert (Hl : forall l, (forall t, In t l -> A t) -> exists m, map h m = l).
  { induction l as [|t l IH]; intros H; [exists []; reflexivity|].
    destruct (Hs t) as [s <-]; [apply H; left; auto|].
    destruct IH as [m <-]; [intros u Hu; apply H; right; auto|exists (s :: m); reflexivity]. }
  assert (Hb : forall u, bound f A u <-> bound (fun s => f (h s)) (fun s => A (h s)) u).
  { intros u; split; intros H l [Hd HA].
    - rewrite <- total_map; apply H; split; [apply Injective_map_NoDup; auto|].
      intros t Ht; apply in_map_iff in Ht; destruct Ht as (s & <- & Hs'); apply HA; auto.
    - destruct (Hl l HA) as [m <-]; rewrite total_map; apply H; split; [apply (NoDup_map_inv h); auto|].
      intros s Hm; apply HA, in_map, Hm. }
  split; intros [H1 H2]; (split; [apply Hb; auto|intros u Hu; apply H2, Hb; auto]).
Qed.

(* An event that holds all the mass. *)
Lemma Prob_support {T} (f : T -> R) (A : T -> Prop) (b : T -> bool) p : (forall t, b t = false -> f t = 0) ->
  (Prob f (fun t => A t /\ b t = true) p <-> Prob f A p).
Proof.
  intros H0.
  assert (Hb : forall u, bound f (fun t => A t /\ b t = true) u <-> bound f A u).
  { intros u; split; intros H l [Hd HA].
    - rewrite (total_filter f b), (total_ext f (fun t => 0 * f t) (filter (fun t => negb (b t)) l)).
      + rewrite total_scale, Rmult_0_l, Rplus_0_r; apply H; split; [apply NoDup_filter; auto|].
        intros t Ht; apply filter_In in Ht; destruct Ht; auto.
      + intros t Ht; apply filter_In in Ht; destruct Ht as [_ Ht]; rewrite H0; [lra|].
        destruct (b t); [discriminate|reflexivity].
    - apply H; split; [auto|intros t Ht; apply HA; auto]. }
  split; intros [H1 H2]; (split; [apply Hb; auto|intros u Hu; apply H2, Hb; auto]).
Qed.

Lemma Sum_support {T} (f : T -> R) (b : T -> bool) p : (forall t, b t = false -> f t = 0) ->
  (Prob f (fun t => b t = true) p <-> Sum f p).
Proof.
  intros H0; unfold Sum; rewrite <- (Prob_support f all b p H0).
  split; apply Prob_ext; intros; unfold all; tauto.
Qed.

(* Tonelli: the sum over pairs is the sum of the sums. *)
Section Pairs.
  Context {S T : Type} (D : eq_dec S).
  Variables (f : S -> T -> R) (s : S -> R).
  Hypothesis rows : forall a, Sum (f a) (s a).

  Let g (p : S * T) := f (fst p) (snd p).

  Lemma pairs_le_rows l : NoDup l -> forall As, NoDup As ->
    (forall p, In p l -> In (fst p) As) -> total g l <= total s As.
  Proof.
    intros Hd As HAs; revert l Hd; induction HAs as [|a As Ha HAs IH]; intros l Hd Hl.
    - destruct l as [|p l]; [simpl; lra|destruct (Hl p); left; auto].
    - set (b := fun p : S * T => if D (fst p) a then true else false).
      assert (Hb : forall p, b p = true <-> fst p = a).
      { intros p; unfold b; destruct (D (fst p) a); intuition discriminate. }
      rewrite (total_filter g b); simpl; apply Rplus_le_compat.
      + assert (Hf : forall p, In p (filter b l) -> p = (a, snd p)).
        { intros [a' t] Hp; apply filter_In in Hp; destruct Hp as [_ Hp]; apply Hb in Hp; simpl in *; subst; auto. }
        assert (E : filter b l = map (pair a) (map snd (filter b l))).
        { rewrite map_map; rewrite <- (map_id (filter b l)) at 1; apply map_ext_in; auto. }
        rewrite E, total_map; apply (rows a); split; [|intros; exact I].
        apply (NoDup_map_inv (pair a)); rewrite <- E; apply NoDup_filter; auto.
      + apply IH; [apply NoDup_filter; auto|].
        intros p Hp; apply filter_In in Hp; destruct Hp as [Hp Hn].
        destruct (Hl p Hp) as [E|Hi]; [|auto].
        apply eq_sym, Hb in E; rewrite E in Hn; discriminate.
  Qed.

  Lemma rows_le_pairs u : bound g all u -> forall As, NoDup As -> forall l, NoDup l ->
    (forall p, In p l -> ~ In (fst p) As) -> total g l + total s As <= u.
  Proof.
    intros Hu As HAs; induction HAs as [|a As Ha HAs IH]; intros l Hd Hl; simpl.
    - rewrite Rplus_0_r; apply Hu; split; [auto|intros; exact I].
    - assert (s a <= u - total g l - total s As); [|lra].
      apply (rows a); intros m [Hm _].
      assert (total g (map (pair a) m ++ l) + total s As <= u).
      { apply IH.
        - induction Hm as [|t m Ht Hm IHm]; simpl; [auto|constructor; [|auto]].
          rewrite in_app_iff, in_map_iff; intros [(t' & E & Ht')|H].
          + injection E as <-; auto.
          + apply (Hl _ H); left; auto.
        - intros p Hp; apply in_app_iff in Hp; destruct Hp as [Hp|Hp].
          + apply in_map_iff in Hp; destruct Hp as (t & <- & _); exact Ha.
          + intros Hi; apply (Hl p Hp); right; auto. }
      rewrite total_app, total_map in H; unfold g at 1 in H; simpl in H.
      change (fun t => f a t) with (f a) in H; lra.
  Qed.

  Lemma Sum_pairs t : Sum s t <-> Sum g t.
  Proof.
    assert (Hb : forall u, bound s all u <-> bound g all u).
    { intros u; split; intros H l [Hd _].
      - apply Rle_trans with (total s (nodup D (map fst l))).
        + apply pairs_le_rows; [auto|apply NoDup_nodup|].
          intros p Hp; apply nodup_In, in_map; auto.
        + apply H; split; [apply NoDup_nodup|intros; exact I].
      - pose proof (rows_le_pairs u H l Hd [] (NoDup_nil _)) as E; simpl in E; rewrite Rplus_0_l in E.
        apply E; intros p []. }
    split; intros [H1 H2]; (split; [apply Hb; auto|intros u Hu; apply H2, Hb; auto]).
  Qed.
End Pairs.

Lemma Sum_swap {S T} (DS : eq_dec S) (DT : eq_dec T) (f : S -> T -> R) s r t :
  (forall a, Sum (f a) (s a)) -> (forall b, Sum (fun a => f a b) (r b)) -> Sum s t -> Sum r t.
Proof.
  intros Hs Hr H.
  apply (Sum_pairs DS f s Hs) in H.
  apply (Sum_pairs DT (fun b a => f a b) r Hr).
  apply (Prob_bijection (fun p : S * T => f (fst p) (snd p)) all (fun p => (snd p, fst p))) in H.
  - exact H.
  - intros [a b] [a' b'] E; simpl in E; injection E as -> ->; reflexivity.
  - intros [a b] _; exists (b, a); reflexivity.
Qed.

Lemma Sum_product {S T} (DS : eq_dec S) (f : S -> R) (g : T -> R) s t : (forall a, 0 <= f a) -> 0 <= t ->
  Sum f s -> Sum g t -> Sum (fun p => f (fst p) * g (snd p)) (s * t).
Proof.
  intros Hf Ht Hs Hg.
  apply (Sum_pairs DS (fun a b => f a * g b) (fun a => f a * t)).
  - intros a; apply Sum_scale; auto.
  - rewrite (Rmult_comm s t); apply Prob_ext with (fun a => t * f a) all; [intros; lra|tauto|].
    apply Sum_scale; auto.
Qed.
