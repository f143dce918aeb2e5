/* Elementary functions without branches, so that a compiler computes them for several numbers at a time.
 *
 * Coefficients are those of the usual series; every function is exact to a few units of the last place. Numbers that
 * the short way is not for are computed by the C library, each by itself.
 */
#ifndef MEDN_ENGINE_MATH_H
#define MEDN_ENGINE_MATH_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER)
#define INLINE static __forceinline
#define RESTRICT __restrict
#else
#define INLINE static inline __attribute__((always_inline))
#define RESTRICT restrict
#endif

INLINE uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define SHIFTER 6755399441055744.0 /* 1.5 * 2^52: added and taken away, it leaves the nearest whole number */

INLINE double short_log(double x) {
    /* x = 2^k z with z around one; log z by the series of atanh. */
    uint64_t bits = bits_of(x), moved = bits - 0x3fe6a09e667f3bcdULL + 0x3ff0000000000000ULL;
    double k = of_bits((moved >> 52) | 0x4330000000000000ULL) - 4503599627370496.0 - 1023.0;
    double z = of_bits(bits - ((moved & 0xfff0000000000000ULL) - 0x3ff0000000000000ULL));
    double f = z - 1.0, s = f / (2.0 + f), s2 = s * s, half = 0.5 * f * f;
    double series =
        s2 * (0.6666666666666735130 +
              s2 * (0.3999999999940941908 +
                    s2 * (0.2857142874366239149 +
                          s2 * (0.2222219843214978396 +
                                s2 * (0.1818357216161805012 +
                                      s2 * (0.1531383769920937332 + s2 * 0.1479819860511658591))))));
    return k * 6.93147180369123816490e-01 - ((half - (s * (half + series) + k * 1.90821492927058770002e-10)) - f);
}

INLINE double short_exp(double x) {
    double held = x < -708.0 ? -708.0 : (x > 709.0 ? 709.0 : x);
    double shifted = held * 1.4426950408889634074 + SHIFTER, k = shifted - SHIFTER;
    double r = (held - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double p = 1.6059043836821613e-10;
    p = p * r + 2.08767569878681e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.755731922398589e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.48015873015873e-05;
    p = p * r + 1.984126984126984e-04;
    p = p * r + 1.388888888888889e-03;
    p = p * r + 8.333333333333333e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * of_bits((bits_of(shifted) << 52) + 0x3ff0000000000000ULL);
}

INLINE double kernel_of(double square, int is_matern) {
    /* Of the two shapes, a Gaussian bell and Matern 5/2; nothing is left of either long before a million. */
    const double most = square < 1e6 ? square : 1e6, held = most > 0.0 ? most : 0.0;
    if (!is_matern) return short_exp(-held);
    const double distance = sqrt(held);
    return short_exp(-distance) * (1.0 + (distance + held * (1.0 / 3.0)));
}

INLINE float short_silu(float x) {
    /* By the exponential of -|x|, which never overflows; from 87 on nothing is left of it. */
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t size = (int32_t)(bits & 0x7fffffffu), most = 0x42ae0000;
    const int32_t held_bits = size < most ? size : most;
    float held, shifted;
    memcpy(&held, &held_bits, sizeof held);
    shifted = 12582912.0f - held * 1.44269504f;
    float k = shifted - 12582912.0f;
    float r = (-held - k * 0.693359375f) + k * 2.12194440e-4f;
    float p = 1.9841270e-4f;
    p = p * r + 1.3888889e-3f;
    p = p * r + 8.3333333e-3f;
    p = p * r + 4.1666667e-2f;
    p = p * r + 1.6666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    memcpy(&shifted, &bits, sizeof bits);
    p *= shifted;
    return x * (x < 0.0f ? p : 1.0f) / (1.0f + p);
}

INLINE double short_sine(double x, int quarters) {
    /* x = k pi/2 + r; sine or cosine of r by their series, by which quarter it is. */
    double shifted = x * 0.63661977236758134308 + SHIFTER, k = shifted - SHIFTER;
    double r = ((x - k * 1.57079632673412561417e+00) - k * 6.07710050630396597660e-11) - k * 2.02226624879595063154e-21;
    double r2 = r * r;
    double sine = -7.6471637318198164759e-13;
    sine = sine * r2 + 1.6059043836821614599e-10;
    sine = sine * r2 - 2.5052108385441718775e-08;
    sine = sine * r2 + 2.7557319223985890653e-06;
    sine = sine * r2 - 1.9841269841269841270e-04;
    sine = sine * r2 + 8.3333333333333333333e-03;
    sine = sine * r2 - 1.6666666666666666667e-01;
    sine = r + r * r2 * sine;
    double cosine = 4.7794773323873852974e-14;
    cosine = cosine * r2 - 1.1470745597729724714e-11;
    cosine = cosine * r2 + 2.0876756987868098979e-09;
    cosine = cosine * r2 - 2.7557319223985890653e-07;
    cosine = cosine * r2 + 2.4801587301587301587e-05;
    cosine = cosine * r2 - 1.3888888888888888889e-03;
    cosine = cosine * r2 + 4.1666666666666666667e-02;
    cosine = 1.0 - 0.5 * r2 + r2 * r2 * cosine;
    uint64_t quarter = bits_of(shifted) + (uint64_t)quarters;
    double found = (quarter & 1) ? cosine : sine;
    return (quarter & 2) ? -found : found;
}

/* Each of these computes n numbers; those that the short way is not for come after. */

INLINE void log_of_many(double *RESTRICT out, const double *RESTRICT x, int64_t n) {
    int strange = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = short_log(x[i]);
        strange |= !(x[i] >= DBL_MIN && x[i] <= DBL_MAX);
    }
    if (strange)
        for (int64_t i = 0; i < n; i++)
            if (!(x[i] >= DBL_MIN && x[i] <= DBL_MAX)) out[i] = log(x[i]);
}

INLINE void log1p_of_many(double *RESTRICT out, const double *RESTRICT x, int64_t n) {
    int strange = 0;
    for (int64_t i = 0; i < n; i++) {
        double one_more = 1.0 + x[i];
        /* What was lost in adding one comes back by the slope of the logarithm. */
        out[i] = short_log(one_more) + (x[i] - (one_more - 1.0)) / one_more;
        strange |= !(x[i] > -0.5 && x[i] <= 1e300);
    }
    if (strange)
        for (int64_t i = 0; i < n; i++)
            if (!(x[i] > -0.5 && x[i] <= 1e300)) out[i] = log1p(x[i]);
}

INLINE void exp_of_many(double *RESTRICT out, const double *RESTRICT x, int64_t n) {
    int strange = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = short_exp(x[i]);
        strange |= !(x[i] >= -708.0 && x[i] <= 709.0);
    }
    if (strange)
        for (int64_t i = 0; i < n; i++)
            if (!(x[i] >= -708.0 && x[i] <= 709.0)) out[i] = exp(x[i]);
}

INLINE void sine_of_many(double *RESTRICT out, const double *RESTRICT x, int64_t n, int quarters) {
    int strange = 0;
    for (int64_t i = 0; i < n; i++) {
        out[i] = short_sine(x[i], quarters);
        strange |= !(x[i] >= -1e5 && x[i] <= 1e5);
    }
    if (strange)
        for (int64_t i = 0; i < n; i++)
            if (!(x[i] >= -1e5 && x[i] <= 1e5)) out[i] = quarters ? cos(x[i]) : sin(x[i]);
}

INLINE void sine_and_cosine_of_many(double *RESTRICT sine, double *RESTRICT cosine, const double *RESTRICT x, int64_t n) {
    /* Of one angle both take hardly longer than one. */
    int strange = 0;
    for (int64_t i = 0; i < n; i++) {
        sine[i] = short_sine(x[i], 0);
        cosine[i] = short_sine(x[i], 1);
        strange |= !(x[i] >= -1e5 && x[i] <= 1e5);
    }
    if (strange)
        for (int64_t i = 0; i < n; i++)
            if (!(x[i] >= -1e5 && x[i] <= 1e5)) sine[i] = sin(x[i]), cosine[i] = cos(x[i]);
}

INLINE void silu_of_many(float *RESTRICT out, const float *RESTRICT x, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = short_silu(x[i]);
}

#endif
