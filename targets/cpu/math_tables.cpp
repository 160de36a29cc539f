// exp and erf on f32 lanes where one instruction takes each of 16 lanes from any of two registers, as AVX-512's vpermi2ps: tables of 32
// values, or polynomials, need fewer operations than math_exp.cpp's ways: six multiplications for exp's nine, half of erf's. exp within 2.7 units in the last place, erf within 2.2;
// 1 + erf within 1.2e-7.
//
// A table of values and a short series about each: S. Gal, "Computing elementary functions: a new approach for achieving high
// accuracy and good performance" (1986). The polynomials are fitted by us, by weighted least squares as in Lawson's algorithm (1961):
// of exp for the least relative error, 5.4e-8; of erf for the least in units in the last place, 9e-9, where each coefficient is rounded
// before the ones below it are fitted, and then moved by some units where the arithmetic below gains by it.
#include "targets/cpu/codegen.h"
#include "targets/cpu/math_lanes.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace kumiko::cpu {

namespace {

constexpr int register_lanes = 16;

// The coefficients of (|x| - k/8)^4 to (|x| - k/8)^0, for k = 0 to 31. For k = 0 the last is 0, so that small numbers keep their relative accuracy.
const float erf_pieces[5][2 * register_lanes] = {
    {0.01408213,      0.0671019778,    0.125586972,     0.166241318,     0.182629377,     0.176177591,
     0.150503382,     0.112325653,     0.0692159161,    0.0280792881,    -0.0060139955,   -0.0303492732,
     -0.0444668569,   -0.0496208295,   -0.0480409525,   -0.0422317721,   -0.0344417803,   -0.0263732299,
     -0.019103203,    -0.0131544806,   -0.0086414963,   -0.00542965205,  -0.00326944608,  -0.00188955828,
     -0.00104944792,  -0.000560669927, -0.000288373674, -0.000142891033, -6.82506216e-05, -3.1439442e-05,
     -1.39732965e-05, -6.15057888e-06},
    {-0.376664311,   -0.358219892,   -0.308784425,  -0.234654531,   -0.146429271,   -0.0558053516,  0.0265292022,
     0.0925957784,   0.138031751,    0.16215311,    0.167305589,    0.157788217,    0.138679013,    0.114830121,
     0.0901894942,   0.0674969554,   0.0482868068,  0.0330983773,   0.0217765775,   0.0137713421,   0.00837996975,
     0.00491103483,  0.00277385768,  0.00151091209, 0.000794071995, 0.000402842212, 0.000197345275, 9.33846386e-05,
     4.26976185e-05, 1.88676895e-05, 8.059641e-06,  3.3226188e-06},
    {6.86679959e-06,  -0.138855159,    -0.264998347,    -0.367627919,   -0.43939209,     -0.477188796,
     -0.482204884,    -0.459158778,    -0.415102392,    -0.358053207,   -0.295656174,    -0.234242722,
     -0.178400517,    -0.130770475,    -0.0923563987,   -0.062898241,   -0.0413339771,   -0.026224222,
     -0.0160701815,   -0.00951534603,  -0.00544567592,  -0.00301314425, -0.00161224185,  -0.000834392151,
     -0.00041774998,  -0.000202365263, -9.48610614e-05, -4.3035303e-05, -1.88970262e-05, -8.03221974e-06,
     -3.30513103e-06, -1.31630793e-06},
    {1.12837911,     1.11088479,     1.06001377,     0.9803527,      0.87878263,     0.763499618,   0.642931104,
     0.524745166,    0.415107667,    0.318274081,    0.236521214,    0.17035985,     0.118930325,   0.0804722607,
     0.0527749583,   0.0335457735,   0.0206669252,   0.0123407608,   0.00714226998,  0.00400643703, 0.002178255,
     0.00114785496,  0.000586264068, 0.000290220109, 0.000139248194, 6.47559282e-05, 2.9187524e-05, 1.27509575e-05,
     5.39903385e-06, 2.21573077e-06, 8.81344192e-07, 3.39793559e-07},
    {0,           0.140316203, 0.276326388, 0.404116899, 0.520499885, 0.623240888, 0.711155653, 0.784075081,
     0.842700779, 0.888388216, 0.92290014,  0.948170066, 0.966105163, 0.978443742, 0.986671686, 0.99199003,
     0.995322287, 0.997345984, 0.998537302, 0.999217033, 0.999593019, 0.999794602, 0.999899387, 0.999952137,
     0.999977887, 0.999990106, 0.999995708, 0.999998212, 0.999999285, 0.999999702, 0.999999881, 1},
};

// 2^(k/32), for k = 0 to 31. With `exponents` so that adding k << 18 to the bits gives 2^(k/32 + 32).
struct Roots {
    float of[2 * register_lanes];
};
Roots exp_roots(bool exponents) {
    Roots roots;
    for (uint32_t k = 0; k < 2 * register_lanes; k++) {
        const float root = static_cast<float>(std::exp2(k / 32.0));
        roots.of[k] = exponents ? std::bit_cast<float>(std::bit_cast<uint32_t>(root) + (32u << 23) - (k << 18)) : root;
    }
    return roots;
}

// The elements that the last five bits of each lane name.
Lanes lookup(const Lanes &index, const float *table) {
    auto half = [&](int at) {
        return llvm::ConstantDataVector::get(index.ir->getContext(), llvm::ArrayRef<float>(table + at, register_lanes));
    };
    return index.with(index.ir->CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_512, {},
                                                {half(0), index.bits().v, half(register_lanes)}));
}

} // namespace

bool Codegen::has_lane_tables() const {
    return options_.target.has("avx512f") && options_.target.vector_bits == 32 * register_lanes;
}

// Lanes that do not fill a register are filled up, so that results do not depend on how many there are.
Value *Codegen::by_registers(Value *x, const std::function<Lanes(Lanes)> &f) {
    std::vector<Value *> results;
    for (int first = 0; first < lanes(x); first += register_lanes) {
        const int count = std::min(register_lanes, lanes(x) - first);
        const Lanes piece = lanes_for_math(widened(slice(x, first, count), register_lanes));
        results.push_back(slice(f(piece).v, 0, count));
    }
    return concat(results);
}

// e^x = 2^m e^r, m the multiple of 1/32 nearest to x / ln 2: 2^m is an element of the table times a power of two, e^r a polynomial of degree 2.
// The bounds keep m in range; a NaN passes through them.
Value *Codegen::exp_by_table(Value *arg, bool nonpositive) {
    const Mad mad{has_fma()};
    return by_registers(arg, [&](Lanes x) {
        x = pick(x < x.f(-104.0), x.f(-104.0), x);
        if (!nonpositive) x = pick(x > x.f(89.0), x.f(89.0), x);
        // The last five bits of what is added to choose from the table; those above are the exponent.
        const Lanes magic = x.f(nonpositive ? 0x1.8p23 : 0x1.8p18);
        const double unit = nonpositive ? 32 : 1;
        const Lanes shifted = mad(x, x.f(unit * M_LOG2E), magic), n = shifted - magic; // unit * m
        const double ln2 = static_cast<float>(M_LN2 / unit);
        Lanes r = mad(n, x.f(-ln2), x);
        r = mad(n, x.f(ln2 - M_LN2 / unit), r); // |r| <= ln 2 / 64
        if (!nonpositive) {
            const Lanes root = lookup(shifted, exp_roots(false).of);
            const Lanes p = mad.polynomial(r, {0.49999997, 1.00001466, 1}) * root;
            return x.with(ir_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                                              {p.v, n.v, x.f(0).v, ir_.getInt16(0xffff), ir_.getInt32(4)}));
        }
        // 2^(m + 32) is no subnormal number, and the polynomial has the 2^-32.
        const double small = std::ldexp(1.0, -32);
        const Lanes p = mad.polynomial(r, {0.49999997 * small, 1.00001466 * small, small});
        return p * (shifted.bits().shl(18) + lookup(shifted, exp_roots(true).of).bits()).floats();
    });
}

// k, the integer nearest to 8 |x|, stands in the last bits of |x| + 1.5 * 2^20, where the instruction looks. Beyond the bound, at which the last
// polynomial is 1, erf rounds to 1. A NaN passes through the bound and any polynomial.
Value *Codegen::erf_by_table(Value *arg) {
    const Mad mad{has_fma()};
    return by_registers(arg, [&](Lanes x) {
        Lanes a = x.abs();
        a = pick(a > a.f(3.9296875), a.f(3.9296875), a);
        const Lanes magic = a.f(1572864.0), shifted = a + magic, r = a - (shifted - magic);
        Lanes p = lookup(shifted, erf_pieces[0]);
        for (size_t power = 1; power < std::size(erf_pieces); power++)
            p = mad(p, r, lookup(shifted, erf_pieces[power]));
        return p.copysign(x);
    });
}

} // namespace kumiko::cpu
