(* Rounding two numbers in the same way: how far apart the results are. *)

From Coq Require Import ZArith Lia Reals Lra.
Open Scope R_scope.

(* THEORY 2.1, claim (rounding), for all real numbers. *)
Definition ceiling r := (- Int_part (- r))%Z.

Theorem rounding s c : (Z.abs (Int_part (s + c) - Int_part s) <= ceiling (Rabs c))%Z.
Proof.
  unfold ceiling.
  destruct (base_Int_part (s + c)) as [H1 H2], (base_Int_part s) as [H3 H4], (base_Int_part (- Rabs c)) as [H5 H6].
  assert (IZR (Int_part (s + c) - Int_part s + Int_part (- Rabs c)) < 1 /\
    IZR (Int_part s - Int_part (s + c) + Int_part (- Rabs c)) < 1) as [L1 L2].
  { rewrite !plus_IZR, !minus_IZR; unfold Rabs in *; destruct (Rcase_abs c); lra. }
  apply lt_IZR in L1, L2; lia.
Qed.

(* On the disk all numbers are whole: l units a quantum. *)
Definition ceil_div k l := (- (- k / l))%Z.

Theorem coupling l u s s' : (0 < l)%Z -> (Z.abs ((u + s) / l - (u + s') / l) <= ceil_div (Z.abs (s - s')) l)%Z.
Proof.
  intros Hl; unfold ceil_div; set (q := (- (- Z.abs (s - s') / l))%Z).
  assert (Hq : (Z.abs (s - s') <= q * l)%Z).
  { pose proof (Z.mul_div_le (- Z.abs (s - s')) l Hl); unfold q; lia. }
  assert (L : forall v v', (v <= v' + q * l)%Z -> (v / l <= v' / l + q)%Z).
  { intros v v' H; rewrite <- Z.div_add by lia; apply Z.div_le_mono; lia. }
  pose proof (L (u + s)%Z (u + s')%Z); pose proof (L (u + s')%Z (u + s)%Z); lia.
Qed.

(* THEORY 3.2: slots s, .., s + l - 1 touch at most ceil((l - 1)/b) + 1 blocks of b slots. *)
Theorem blocks_touched b s l : (0 < b)%Z -> (0 < l)%Z ->
  ((s + l - 1) / b - s / b + 1 <= ceil_div (l - 1) b + 1)%Z.
Proof.
  intros Hb Hl; pose proof (coupling b s (l - 1) 0 Hb) as E;
    rewrite Z.add_0_r, Z.sub_0_r, (Z.abs_eq (l - 1)) in E by lia.
  replace (s + (l - 1))%Z with (s + l - 1)%Z in E by ring; lia.
Qed.
