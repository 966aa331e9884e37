/*
 * math_body.h: exponentials and related functions over vectors, accurate to two or three units in the last place.
 *
 * The polynomials are Chebyshev fits, near minimax, computed with 40-digit arithmetic for the stated intervals. Except
 * in vsin, no branch depends on a value, so the time of a vector does not depend on its content. NaN gives NaN.
 */
#ifndef BGI_CPU_MATH_BODY_H
#define BGI_CPU_MATH_BODY_H

#include "kernels/cpu/simd.h"

/* Evaluates a polynomial by Horner's rule; the highest coefficient is the last one in `c`. */
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

/* Returns 2^n for n in -126..127. */
ALWAYS_INLINE vf vpower_of_two(vi n)
{
    return (vf)((n + vset_int(127)) << 23);
}

/* Returns e^x = 2^n e^r with |r| <= log(2) / 2; e^r = 1 + r + r^2 p(r). Multiplying by 2^n in two steps reaches
 * infinity and the subnormals. */
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

/* Returns e^x - 1 = 2^n (e^r - 1) + (2^n - 1), with n and r as above, which loses no digits near 0. */
ALWAYS_INLINE vf vexpm1(vf x)
{
    static const float p[] = {5.000000000e-01f, 1.666656963e-01f, 4.166654542e-02f, 8.364380693e-03f, 1.392768462e-03f};
    const vf inside = vmax(vmin(x, vset(89.0f)), vset(-20.0f));
    const vf n = vround(inside * vset(1.44269504f));
    const vf r = vfma(n, vset(-1.42860682e-6f), vfma(n, vset(-0.693145752f), inside));
    const vf e = vfma(vpolynomial(r, p, 5), r * r, r);
    const vi whole = vto_int(n), half = whole >> 1;
    const vf first = vpower_of_two(half), second = vpower_of_two(whole - half);
    /* 2^128 is infinite; for such n, e^x - 1 equals e^x to the last bit */
    const vf far = (e + vset(1.0f)) * first * second;
    const vf near = vfma(e, first * second, first * second - vset(1.0f));

    return vselect(vis_nan(x), x, vselect(vgreater(x, vset(40.0f)), far, near));
}

/* Returns log(x) = n log(2) + log(m), m in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2 / 2 + f^3 p(f). */
ALWAYS_INLINE vf vlog(vf x)
{
    static const float p[] = {3.333333118e-01f,  -2.499999696e-01f, 2.000071575e-01f,
                              -1.666780232e-01f, 1.424905765e-01f,  -1.242568733e-01f,
                              1.168541992e-01f,  -1.147973385e-01f, 6.971611471e-02f};
    const vm small = vgreater(vset(1.17549435e-38f), x); /* subnormals are scaled by 2^24 */
    const vi bits = (vi)vselect(small, x * vset(16777216.0f), x);
    /* The exponent of x / sqrt(1/2), so that m is near 1. */
    const vi power = (bits - vset_int(0x3f3504f3)) >> 23;
    const vf m = (vf)(bits - (power << 23));
    const vf n = vto_float(power) - vselect(small, vset(24.0f), vset(0.0f));
    const vf f = m - vset(1.0f), square = f * f;
    const vf tail = vfma(n, vset(1.42860682e-6f), vfma(square, vset(-0.5f), vpolynomial(f, p, 9) * f * square));
    const vf value = vfma(n, vset(0.693145752f), f + tail);
    const vf infinity = vset(INFINITY), zero = vset(0.0f);
    const vm is_outside = vmask_or(vgreater(zero, x), vis_nan(x));

    return vselect(is_outside, vset(NAN),
                   vselect(vgreater(x, zero), vselect(vgreater(infinity, x), value, infinity), -infinity));
}

/* Returns log(1 + x); the slope of the logarithm corrects the rounding error of 1 + x. */
ALWAYS_INLINE vf vlog1p(vf x)
{
    const vf u = vset(1.0f) + x, lost = (x - (u - vset(1.0f))) / u;
    const vm is_ordinary = vmask_and(vgreater(vset(3e38f), u), vgreater(u, vset(0.0f)));

    return vlog(u) + vselect(is_ordinary, lost, vset(0.0f));
}

/* Returns log(1 + e^x). */
ALWAYS_INLINE vf vsoftplus(vf x)
{
    return vselect(vgreater(x, vset(0.0f)), x, vselect(vis_nan(x), x, vset(0.0f))) + vlog1p(vexp(-vabs(x)));
}

/* Returns the sine of x + quarters * pi / 2. pi / 2 is split into four parts, of which three have 10 bits, so that
 * their products with n are exact up to `far`. Beyond `far` each lane is computed in double. */
ALWAYS_INLINE vf vsin(vf x, const int quarters)
{
    static const float sine[] = {-1.666666666e-01f, 8.333331875e-03f, -1.984008674e-04f, 2.724992580e-06f};
    static const float cosine[] = {4.166666666e-02f, -1.388888767e-03f, 2.480060038e-05f, -2.730095920e-07f};
    const vf far = vset(8192.0f), one = vset(1.0f), zero = vset(0.0f);
    const vm is_far = vgreater(vabs(x), far), is_out = vmask_or(is_far, vis_nan(x));
    const vf inside = vselect(is_out, zero, x);
    const vf n = vround(inside * vset(0.636619772f));
    const vf coarse = vfma(n, vset(-0x1.51p-22f), vfma(n, vset(-0x1.fbp-12f), vfma(n, vset(-0x1.92p+0f), inside)));
    const vf r = vfma(n, vset(-0x1.0b4612p-34f), coarse), square = r * r;
    const vi quadrant = vto_int(n) + vset_int(quarters);
    const vf s = vfma(vpolynomial(square, sine, 4) * square, r, r);
    const vf c = vfma(vpolynomial(square, cosine, 4), square * square, vfma(square, vset(-0.5f), one));
    const vf value = vselect(vgreater(vto_float(quadrant & vset_int(1)), zero), c, s);
    vf result = (vf)((vi)value ^ ((quadrant & vset_int(2)) << 30));

    result = vselect(vis_nan(x), x, result);
    if (vsum(vselect(is_far, one, zero)) > 0.0f)
        for (int i = 0; i < LANES; i++)
            if (fabsf(x[i]) > 8192.0f)
                result[i] = (float)(quarters == 0 ? sin((double)x[i]) : cos((double)x[i]));
    return result;
}

/* Returns x + x^3 p(x^2) for |x| up to 0.625, and 1 - 2 / (e^(2|x|) + 1), with x's sign, beyond. */
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

/* Returns the probability that a normal variable is below x, and in *density its density without the factor
 * 1 / sqrt(2 pi). The probability is erfc(t) / 2 for negative x, t = |x| / sqrt(2), where erfc(t) = e^(-t^2) u p(u),
 * u = 1 / (t + 2), for t up to 10. */
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

/* Returns the error function: x p(x^2) for |x| up to 1, and 1 - 2 normal(-sqrt(2) |x|), with x's sign, beyond. */
ALWAYS_INLINE vf verf(vf x)
{
    static const float p[] = {1.128379167e+00f, -3.761263847e-01f, 1.128378250e-01f, -2.686543073e-02f,
                              5.221031808e-03f, -8.484080406e-04f, 1.126595903e-04f, -9.667044571e-06f};
    const vf size = vabs(x), near = x * vpolynomial(x * x, p, 8);
    vf density;
    const vf far = vset(1.0f) - vset(2.0f) * vnormal(vmax(size * vset(-1.41421356f), vset(-14.0f)), &density);

    return vselect(vgreater(size, vset(1.0f)), vcopy_sign(far, x), near);
}

/* Rounds towards minus infinity; the sign of zero stays. Beyond 2^23 every float is an integer. */
ALWAYS_INLINE vf vfloor(vf x)
{
    const vf nearest = vround(x);

    return vcopy_sign(vselect(vgreater(nearest, x), nearest - vset(1.0f), nearest), x);
}

ALWAYS_INLINE vf vtrunc(vf x)
{
    return vcopy_sign(vfloor(vabs(x)), x);
}

#endif
