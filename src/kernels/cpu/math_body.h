/*
 * math_body.h: exponentials and their kin over vectors, to two or three units in the last place.
 *
 * The polynomials are Chebyshev fits, near minimax, made with 40-digit arithmetic for the intervals that are named; no
 * branch depends on a value, so a vector takes the same time whatever is in it. NaN goes through.
 */
#ifndef BGI_CPU_MATH_BODY_H
#define BGI_CPU_MATH_BODY_H

#include "kernels/cpu/simd.h"

/* Horner's rule, highest coefficient last in `c`. */
ALWAYS_INLINE vf vpolynomial(vf x, const float *c, const int count)
{
    vf sum = vset(c[count - 1]);

    UNROLL
    for (int i = count - 2; i >= 0; i--)
        sum = vfma(sum, x, vset(c[i]));
    return sum;
}

ALWAYS_INLINE vf vabs(vf x)
{
    return (vf)((vi)x & vset_int(0x7fffffff));
}

ALWAYS_INLINE vf vcopy_sign(vf magnitude, vf sign)
{
    return (vf)(((vi)magnitude & vset_int(0x7fffffff)) | ((vi)sign & vset_int((int32_t)0x80000000u)));
}

/* 2^n for n in -126..127 */
ALWAYS_INLINE vf vpower_of_two(vi n)
{
    return (vf)((n + vset_int(127)) << 23);
}

/* e^x = 2^n e^r with |r| <= log(2) / 2; e^r = 1 + r + r^2 p(r). 2^n in two steps reaches infinity and the subnormals.
 */
ALWAYS_INLINE vf vexp(vf x)
{
    static const float p[] = {5.000000000e-01f, 1.666656963e-01f, 4.166654542e-02f, 8.364380693e-03f, 1.392768462e-03f};
    const vf inside = vmax(vmin(x, vset(89.0f)), vset(-104.0f));
    const vf n = vround(inside * vset(1.44269504f));
    /* log(2) in two parts: the first times n is exact */
    const vf r = vfma(n, vset(-1.42860682e-6f), vfma(n, vset(-0.693145752f), inside));
    const vf e = vfma(vpolynomial(r, p, 5), r * r, r) + vset(1.0f);
    const vi whole = vto_int(n), half = whole >> 1;

    return vselect(vis_nan(x), x, e * vpower_of_two(half) * vpower_of_two(whole - half));
}

/* Small arguments: x + x^3 p(x^2), for |x| < 0.625; others: 1 - 2 / (e^2|x| + 1), with x's sign. */
ALWAYS_INLINE vf vtanh(vf x)
{
    static const float p[] = {-3.333332894e-01f, 1.333276974e-01f, -5.385090958e-02f, 2.099717900e-02f,
                              -6.096714166e-03f};
    const vf size = vabs(x), s = x * x;
    const vf small = vfma(vpolynomial(s, p, 5) * s, x, x);
    const vf large = vset(1.0f) - vset(2.0f) / (vexp(size + size) + vset(1.0f));

    return vselect(vgreater(size, vset(0.625f)), vcopy_sign(large, x), small);
}

ALWAYS_INLINE vf vsigmoid(vf x)
{
    return vset(1.0f) / (vset(1.0f) + vexp(-x));
}

/* The normal distribution: its density without the factor 1 / sqrt(2 pi), and its probability of being below x:
 * erfc(t) / 2 for negative x, t = |x| / sqrt(2), where erfc(t) = e^(-t^2) u p(u), u = 1 / (t + 2), for t up to 10. */
ALWAYS_INLINE vf vnormal(vf x, vf *density)
{
    static const float p[] = {5.641085590e-01f,  1.132342819e+00f, 1.891925189e+00f,  3.788310642e+00f,
                              -4.290674766e+00f, 3.159827011e+01f, -9.775065334e+01f, 1.289481617e+02f,
                              -8.029833372e+01f, 1.921686296e+01f};
    const vf u = vset(1.0f) / vfma(vabs(x), vset(0.707106781f), vset(2.0f));
    const vf e = vexp(x * x * vset(-0.5f));
    const vf tail = vset(0.5f) * e * u * vpolynomial(u, p, 10);

    *density = e;
    return vselect(vgreater(x, vset(0.0f)), vset(1.0f) - tail, tail);
}

#endif
