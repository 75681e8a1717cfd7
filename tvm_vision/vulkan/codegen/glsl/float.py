"""Floating-point helper functions in GLSL, for float and for double, from first principles.

GLSL allows a driver very coarse trigonometry (errors of 2^-11), leaves pow of a negative base and
tanh of a large argument undefined, and has no transcendental function for double at all. The
functions here are the textbook ones: argument reduction, then a Taylor or Chebyshev polynomial long
enough for the type (about 3e-7 relative for float, 1e-14 for double; powers and exponentials of
large arguments lose as many digits as the argument has before the point). Sums whose order matters
are ``precise``: drivers merge x - k a - k b into x - k (a + b) otherwise.

In a source, ``T`` stands for the type and ``@name(`` for a function of the same type: another
helper where there is one, else the GLSL built-in. A source belongs to both types unless it is
listed in SINGLE or DOUBLE.
"""

from __future__ import annotations


def horner(variable: str, coefficients: list[str]) -> str:
    """A polynomial, lowest power first, as nested multiplications."""
    text = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        text = f"({coefficient} + {variable} * {text})"
    return text


def _factorials(count: int, step: int, sign: int, first: int) -> list[str]:
    """Taylor coefficients sign^k / (first + step k)!, as exact quotients."""
    out, factorial, n = [], 1, 1
    for k in range(count):
        while n <= first + step * k:
            factorial *= n
            n += 1
        out.append(f"{'-' if sign < 0 and k % 2 else ''}1.0 / {factorial}.0")
    return out


def _odd(count: int, sign: int) -> list[str]:
    """Coefficients sign^k / (2k + 1) of the series of atan (sign -1) and of atanh (sign 1)."""
    return [f"{'-' if sign < 0 and k % 2 else ''}1.0 / {2 * k + 1}.0" for k in range(count)]


def _maclaurin_erf(count: int) -> list[str]:
    """Coefficients (-1)^k / (k! (2k + 1)) of erf(x) sqrt(pi) / 2 x."""
    out, factorial = [], 1
    for k in range(count):
        factorial *= max(k, 1)
        out.append(f"{'-' if k % 2 else ''}1.0 / {factorial * (2 * k + 1)}.0")
    return out


# Of float, without a branch or a division: erf(x) / x on 0 <= x <= 1 in x^2, and log erfc(x) on
# 1 <= x <= 4. Least squares at 400 Chebyshev nodes, weighted anew until the errors of erf are even
# (Lawson's algorithm): 1.3e-9 at most.
ERF_NEAR = """1.1283791657266729 -0.37612625823975715 0.11283585145697028 -0.02685381181336454
0.005188327454226926 -0.0008010191592529696 7.853854644526539e-05""".split()
LOG_ERFC = """-0.0003537187923397245 -1.1270400389240016 -0.6382256722981045 -0.10303737318044706
0.02180532051059774 -0.0029396078650849823 0.00018557406877566413""".split()
# Of double: erfc(x) exp(x^2) (1 + 2 x) on 1 <= x <= 27 as a polynomial in v, where
# v = (u + 0.07) / 0.93 and u = (x - 3) / (x + 1): interpolation in Chebyshev nodes of values
# computed with 60 digits.
ERFC_DOUBLE = """1.2590809992625411 -0.07721949213941044 -0.046825771400531624 0.010440283153889993
0.0035723666567365384 -0.0005270745323875667 -0.0004531125829802004 -4.226019416026722e-05
4.552964019403057e-05 2.0044881577528005e-05 3.5661950126046995e-07 -2.976055216713593e-06
-1.2881164483095155e-06 -5.911796593209633e-08 2.024837544616113e-07 1.128576990210959e-07
1.919527487191822e-08 -1.5100273796584493e-08 -1.247029544244886e-08 -1.881253072450032e-09
1.6524537688123604e-09 5.870151133658875e-10 -1.3265567976747267e-11""".split()

# Functions whose text is the same for float and double.
SHARED = {
    "sinh": """
T tv_sinh(T x) {
  T a = abs(x);
  if (a > 20.0) { T h = @exp(0.5 * a); return sign(x) * (0.5 * h) * h; }
  T e = @expm1(a);
  return sign(x) * 0.5 * (e + e / (e + 1.0));
}""",
    "cosh": """
T tv_cosh(T x) {
  T h = @exp(0.5 * abs(x));
  return 0.5 * h * h + 0.5 / h / h;
}""",
    # Through expm1 so that neither small nor large arguments lose digits or overflow.
    "tanh": """
T tv_tanh(T x) {
  T a = abs(x);
  if (a > 20.0) return sign(x);
  T e = @expm1(2.0 * a);
  T t = e / (e + 2.0);
  return x < 0.0 ? -t : (a == 0.0 ? x : (@isnan(x) ? x : t));
}""",
    "sigmoid": """
T tv_sigmoid(T x) {
  T e = @exp(-abs(x));
  return (x < 0.0 ? e : T(1.0)) / (1.0 + e);
}""",
    # Kahan's correction: the rounding of 1 + x cancels in the quotient.
    "log1p": """
T tv_log1p(T x) {
  precise T u = 1.0 + x;
  precise T d = u - 1.0;
  if (d == 0.0 || @isinf(u)) return x;
  return u > 0.0 ? @log(u) * (x / d) : @log(u);
}""",
    "asinh": """
T tv_asinh(T x) {
  T a = abs(x);
  T r = a > 1.0e8 ? @log(a) + 0.693147180559945309417
                  : @log1p(a + a * a / (1.0 + sqrt(a * a + 1.0)));
  return a == 0.0 ? x : sign(x) * r;
}""",
    "acosh": """
T tv_acosh(T x) {
  T t = x - 1.0;
  if (t < 0.0) return @nan(x);
  return x > 1.0e8 ? @log(x) + 0.693147180559945309417 : @log1p(t + sqrt(t * (t + 2.0)));
}""",
    "atanh": """
T tv_atanh(T x) {
  T a = abs(x);
  if (a > 1.0) return @nan(x);
  T r = 0.5 * @log1p(2.0 * a / (1.0 - a));
  return a == 0.0 ? x : sign(x) * r;
}""",
    "log_special": """
T tv_log_special(T x) {
  return x == 0.0 ? -@infinity(x) : (x > 0.0 ? x : @nan(x));
}""",
    "tan": """
T tv_tan(T x) {
  return @sin(x) / @cos(x);
}""",
    "asin": """
T tv_asin(T x) {
  return abs(x) > 1.0 ? @nan(x) : @atan2(x, sqrt((1.0 - x) * (1.0 + x)));
}""",
    "acos": """
T tv_acos(T x) {
  return abs(x) > 1.0 ? @nan(x) : @atan2(sqrt((1.0 - x) * (1.0 + x)), x);
}""",
    "atan2": """
T tv_atan2(T y, T x) {
  T ax = abs(x), ay = abs(y);
  bool negative = @signbit(x);
  T r;
  if (ay == 0.0) r = T(0.0);
  else if (@isinf(ax) && @isinf(ay)) r = T(0.785398163397448309616);
  else r = ay > ax ? 1.57079632679489661923 - @atan(ax / ay) : @atan(ay / ax);
  if (negative) r = 3.14159265358979323846 - r;
  if (@isnan(x) || @isnan(y)) return x + y;
  return @copysign(r, y);
}""",
    "hypot": """
T tv_hypot(T x, T y) {
  T a = max(abs(x), abs(y)), b = min(abs(x), abs(y));
  if (a == 0.0 || @isinf(a)) return a;
  T q = b / a;
  return a * sqrt(1.0 + q * q);
}""",
    # Exact: each step subtracts the largest y 2^k that still fits, which loses no bit.
    "fmod": """
T tv_fmod(T x, T y) {
  T a = abs(x), b = abs(y);
  if (b == 0.0 || @isinf(a) || @isnan(x) || @isnan(y)) return @nan(x);
  if (@isinf(b)) return x;
  while (a >= b) {
    int e = @exponent(a) - @exponent(b);
    T t = @ldexp(b, e);
    if (t > a) t = @ldexp(b, e - 1);
    a -= t;
  }
  return @copysign(a, x);
}""",
    "nextafter": """
T tv_nextafter(T x, T y) {
  if (@isnan(x) || @isnan(y)) return x + y;
  if (x == y) return y;
  if (x == 0.0) return @copysign(@step_bits(T(0.0), 1), y);
  return @step_bits(x, (x < y) == (x > 0.0) ? 1 : -1);
}""",
    "exp10": """
T tv_exp10(T x) {
  T k = roundEven(x * 3.32192809488736234787);
  precise T r = (x - k * LOG10_2_HIGH) - k * LOG10_2_LOW;
  return @ldexp(@exp(r * 2.30258509299404568402), int(clamp(k, -3000.0, 3000.0)));
}""",
    # Powers of a negative base are real for whole exponents; whole exponents up to 64 by squaring.
    "pow": """
T tv_pow(T x, T y) {
  if (y == 0.0 || x == 1.0) return T(1.0);
  T a = abs(x);
  bool whole = y == floor(y);
  if (whole && abs(y) <= 64.0) {
    T r = T(1.0), base = x;
    for (int n = int(abs(y)); n != 0; n >>= 1) {
      if ((n & 1) != 0) r *= base;
      base *= base;
    }
    return y < 0.0 ? 1.0 / r : r;
  }
  T r = a == 0.0 ? (y > 0.0 ? T(0.0) : @infinity(a)) : @exp2(y * @log2(a));
  if (x >= 0.0) return r;
  if (!whole) return @nan(x);
  return fract(0.5 * y) != 0.0 ? -r : r;
}""",
}

# Reduction by pi/2 in three parts (Cody and Waite), quadrant in the low bits of k.
_TRIGONOMETRY = """
T tv_NAME(T x) {
  T k = roundEven(x * 0.636619772367581343076);
  precise T r = ((x - k * PI2_1) - k * PI2_2) - k * PI2_3;
  T z = r * r;
  int q = int(k - 4.0 * floor(k * 0.25)) QUADRANT;
  T s = (q & 1) == 0 ? r * SIN : COS;
  if (@isinf(x) || @isnan(x)) return @nan(x);
  return (q & 2) == 0 ? s : -s;
}"""

# What is no number gives another one, not itself: of a choice between x and what takes the sign of
# x, LLVM makes instructions of AVX-512 that lose bits (llvmpipe of Mesa 22.3 and 26.1).
_ATAN = """
T tv_atan(T x) {
  T a = abs(x);
  T base = T(0.0), t = a;
  if (a > 2.41421356237309504880) {
    base = T(1.57079632679489661923);
    t = -1.0 / a;
  } else if (a > 0.41421356237309504880) {
    base = T(0.785398163397448309616);
    t = (a - 1.0) / (a + 1.0);
  }
  T z = t * t;
  return @isnan(x) ? @nan(x) : @copysign(base + t * SERIES, x);
}"""


def _trigonometry(parts: tuple[str, str, str], terms: int) -> dict[str, str]:
    out = {}
    for name, quadrant in (("sin", ""), ("cos", "+ 1")):
        text = _TRIGONOMETRY.replace("NAME", name).replace("QUADRANT", quadrant)
        text = text.replace("SIN", horner("z", _factorials(terms, 2, -1, 1)))
        text = text.replace("COS", horner("z", _factorials(terms + 1, 2, -1, 0)))
        for index, part in enumerate(parts):
            text = text.replace(f"PI2_{index + 1}", part)
        out[name] = text
    return out


SINGLE = {
    # To the nearest number of fp16, ties to even: from 65520 on infinite, below 2^-14 multiples of
    # 2^-24.
    "half": """
float tv_half(float x) {
  uint bits = floatBitsToUint(x), size = bits & 0x7fffffffu, sign = bits & 0x80000000u;
  if (size >= 0x7f800000u) return x;
  if (size >= 0x477ff000u) return uintBitsToFloat(sign | 0x7f800000u);
  uint small = floatBitsToUint(roundEven(abs(x) * 16777216.0) / 16777216.0);
  uint large = (size + 0xfffu + ((size >> 13) & 1u)) & 0xffffe000u;
  return uintBitsToFloat(sign | (size < 0x38800000u ? small : large));
}""",
    **_trigonometry(("1.5703125", "4.837512969970703125e-4", "7.5497899548918821e-8"), 5),
    "atan": _ATAN.replace("SERIES", horner("z", _odd(9, -1))),
    # Both halves are computed: among neighbours there are some of either.
    "erf": f"""
float tv_erf(float x) {{
  float a = min(abs(x), 4.0), z = a * a;
  float far = 1.0 - exp({horner("a", LOG_ERFC)});
  float r = mix(far, a * {horner("z", ERF_NEAR)}, a < 1.0);
  return @isnan(x) ? @nan(x) : @copysign(r, x);
}}""",
    "exp10": SHARED["exp10"]
    .replace("LOG10_2_HIGH", "0.301025390625")
    .replace("LOG10_2_LOW", "4.605038981195214e-6"),
    "expm1": f"""
T tv_expm1(T x) {{
  return abs(x) < 0.5 ? x * {horner("x", _factorials(9, 1, 1, 1))} : exp(x) - 1.0;
}}""",
    # m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
    "log": f"""
T tv_log(T x) {{
  if (!(x > 0.0) || @isinf(x) || @isnan(x)) return @log_special(x);
  int e = @exponent(x * 1.41421356237309504880);
  T m = @ldexp(x, -e);
  T s = (m - 1.0) / (m + 1.0);
  T z = s * s;
  T l = 2.0 * s * {horner("z", _odd(6, 1))};
  precise T r = float(e) * 0.693359375 - (float(e) * 2.12194440e-4 - l);
  return r;
}}""",
    "log10": """
T tv_log10(T x) {
  return @log(x) * 0.434294481903251827651;
}""",
    "signbit": "bool tv_signbit(float x) { return (floatBitsToUint(x) & 0x80000000u) != 0u; }",
    "isnan": "bool tv_isnan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }",
    "isinf": "bool tv_isinf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }",
    "isfinite": """
bool tv_isfinite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }""",
    "nan": "float tv_nan(float x) { return uintBitsToFloat(0x7fc00000u); }",
    "infinity": "float tv_infinity(float x) { return uintBitsToFloat(0x7f800000u); }",
    "copysign": """
float tv_copysign(float x, float y) {
  return uintBitsToFloat((floatBitsToUint(x) & 0x7fffffffu) | (floatBitsToUint(y) & 0x80000000u));
}""",
    "exponent": """
int tv_exponent(float x) { return int((floatBitsToUint(x) >> 23) & 255u) - 127; }""",
    "ldexp": """
float tv_ldexp(float x, int n) {
  n = clamp(n, -252, 252);
  int h = n / 2;
  return x * intBitsToFloat((h + 127) << 23) * intBitsToFloat((n - h + 127) << 23);
}""",
    "step_bits": """
float tv_step_bits(float x, int by) { return intBitsToFloat(floatBitsToInt(x) + by); }""",
}

DOUBLE = {
    **_trigonometry(
        ("1.57079632673412561417", "6.07710050630396597660e-11", "2.02226624879595063154e-21"), 10
    ),
    "atan": _ATAN.replace("SERIES", horner("z", _odd(22, -1))),
    "erf": f"""
T tv_erf(T x) {{
  T a = abs(x);
  T r;
  if (a < 1.0) {{
    T z = a * a;
    r = 1.12837916709551257390 * a * {horner("z", _maclaurin_erf(19))};
  }} else if (a < 7.0) {{
    T v = ((a - 3.0) / (a + 1.0) + 0.07) / 0.93;
    r = 1.0 - @exp(-a * a) / (1.0 + 2.0 * a) * {horner("v", ERFC_DOUBLE)};
  }} else {{
    r = T(1.0);
  }}
  return @isnan(x) ? @nan(x) : @copysign(r, x);
}}""",
    "exp10": SHARED["exp10"]
    .replace("LOG10_2_HIGH", "0.30102999560767785")
    .replace("LOG10_2_LOW", "5.630334806675098e-11"),
    # x = k log 2 + r with log 2 in two parts, |r| <= 0.35, Taylor to r^14.
    "exp": f"""
T tv_exp(T x) {{
  T k = roundEven(clamp(x, -2000.0, 2000.0) * 1.44269504088896340736);
  precise T r = (x - k * 6.93147180369123816490e-1) - k * 1.90821492927058770002e-10;
  if (@isnan(x)) return x;
  if (x > 800.0) return @infinity(x);
  if (x < -800.0) return T(0.0);
  return @ldexp({horner("r", _factorials(15, 1, 1, 0))}, int(k));
}}""",
    "exp2": """
T tv_exp2(T x) {
  if (@isnan(x)) return x;
  if (x > 1100.0) return @infinity(x);
  if (x < -1100.0) return T(0.0);
  T k = roundEven(x);
  return @ldexp(@exp((x - k) * 0.693147180559945309417), int(k));
}""",
    "expm1": f"""
T tv_expm1(T x) {{
  return abs(x) < 0.5 ? x * {horner("x", _factorials(15, 1, 1, 1))} : @exp(x) - 1.0;
}}""",
    # m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)).
    "log_parts": f"""
T tv_log_parts(T x, out int e) {{
  e = @exponent(x * 1.41421356237309504880);
  T m = @ldexp(x, -e);
  T s = (m - 1.0) / (m + 1.0);
  T z = s * s;
  return 2.0 * s * {horner("z", _odd(12, 1))};
}}""",
    **{
        name: f"""
T tv_{name}(T x) {{
  if (!(x > 0.0) || @isinf(x) || @isnan(x)) return @log_special(x);
  int e;
  T l = @log_parts(x, e);
  precise T r = {value};
  return r;
}}"""
        for name, value in (
            (
                "log",
                "double(e) * 6.93147180369123816490e-1"
                " + (double(e) * 1.90821492927058770002e-10 + l)",
            ),
            ("log2", "double(e) + l * 1.44269504088896340736"),
            (
                "log10",
                "double(e) * 0.30102999560767785 + (double(e) * 5.630334806675098e-11"
                " + l * 0.434294481903251827651)",
            ),
        )
    },
    "signbit": "bool tv_signbit(double x) { return (unpackDouble2x32(x).y & 0x80000000u) != 0u; }",
    "isnan": """
bool tv_isnan(double x) {
  uvec2 b = unpackDouble2x32(x);
  uint high = b.y & 0x7fffffffu;
  return high > 0x7ff00000u || (high == 0x7ff00000u && b.x != 0u);
}""",
    "isinf": """
bool tv_isinf(double x) {
  uvec2 b = unpackDouble2x32(x);
  return (b.y & 0x7fffffffu) == 0x7ff00000u && b.x == 0u;
}""",
    "isfinite": """
bool tv_isfinite(double x) { return (unpackDouble2x32(x).y & 0x7ff00000u) != 0x7ff00000u; }""",
    "nan": "double tv_nan(double x) { return packDouble2x32(uvec2(0u, 0x7ff80000u)); }",
    "infinity": "double tv_infinity(double x) { return packDouble2x32(uvec2(0u, 0x7ff00000u)); }",
    "copysign": """
double tv_copysign(double x, double y) {
  uvec2 a = unpackDouble2x32(x), b = unpackDouble2x32(y);
  return packDouble2x32(uvec2(a.x, (a.y & 0x7fffffffu) | (b.y & 0x80000000u)));
}""",
    "exponent": """
int tv_exponent(double x) { return int((unpackDouble2x32(x).y >> 20) & 2047u) - 1023; }""",
    "ldexp": """
double tv_ldexp(double x, int n) {
  n = clamp(n, -2044, 2044);
  int h = n / 2;
  return x * packDouble2x32(uvec2(0u, uint(h + 1023) << 20))
           * packDouble2x32(uvec2(0u, uint(n - h + 1023) << 20));
}""",
    "step_bits": """
double tv_step_bits(double x, int by) {
  uvec2 b = unpackDouble2x32(x);
  uint low = b.x + uint(by);
  uint high = b.y + (by > 0 ? (low == 0u ? 1u : 0u) : (b.x == 0u ? 0xffffffffu : 0u));
  return packDouble2x32(uvec2(low, high));
}""",
}
