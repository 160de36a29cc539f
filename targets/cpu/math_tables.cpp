// exp and erf on f32 lanes for processors with an instruction that selects each of 16 lanes from
// either of two registers (AVX-512's vpermi2ps). Tables of 32 values or polynomials need fewer
// operations than math_exp.cpp: six multiplications instead of nine for exp, half of erf's. exp is
// within 2.7 units in the last place, erf within 2.2, and 1 + erf within 1.2e-7.
//
// A table of values and a short series about each: S. Gal, "Computing elementary functions: a new
// approach for achieving high accuracy and good performance" (1986). The polynomials are our own
// fits, by weighted least squares as in Lawson's algorithm (1961): of exp for the least relative
// error, 5.4e-8; of erf for the least error in units in the last place, 9e-9. Each coefficient of
// erf is rounded before the lower ones are fitted, then moved by some units if that improves the
// result of the arithmetic below.
#include "targets/cpu/math_functions.h"
#include "targets/cpu/math_lanes.h"

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace kumiko::cpu {

namespace {

constexpr int register_lanes = 16;

// The coefficients of (|x| - k/8)^4 to (|x| - k/8)^0, for k = 0 to 31. For k = 0 the last is 0, so
// that small numbers keep their relative accuracy.
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

// Φ(−a) = erfc(a/√2)/2: the coefficients of (a − 3k/16)^5 to (a − 3k/16)^0, for k = 0 to 31. The
// relative error is 7e-8 up to a = 4; beyond, the absolute error is below 1e-11.
const float normal_pieces[6][2 * register_lanes] = {
    {-0.0119732609,   -0.0100402245,   -0.00832129922,  -0.00358169805,  0.000772075087,  0.00371558475,
     0.00533278286,   0.00628897781,   0.00549825048,   0.00496874796,   0.00356680434,   0.00162191491,
     0.000375595671,  -0.00048036853,  -0.000966649095, -0.00114192523,  -0.00111283443,  -0.000944299914,
     -0.000716594455, -0.000509964302, -0.000344911066, -0.000213608946, -0.000126925894, -7.20235694e-05,
     -3.85263302e-05, -1.97635836e-05, -9.68218137e-06, -4.54165092e-06, -2.03426362e-06, -8.74692034e-07,
     -3.60824714e-07, -1.42569363e-07},
    {0.000464200537, -0.00777104637, -0.0150741264,  -0.0210202541,  -0.0231579058,  -0.0217648055,  -0.0172540434,
     -0.0118687358,  -0.0059036836,  -0.00111427798, 0.00266360771,  0.00515486114,  0.00616546441,  0.00610872684,
     0.0054105008,   0.00439301645,  0.00332776131,  0.00236379402,  0.00158457516,  0.00100873306,  0.000611638941,
     0.000352991454, 0.000194814493, 0.000102831655, 5.19829082e-05, 2.51877045e-05, 1.17073623e-05, 5.22269011e-06,
     2.23760253e-06, 9.21150956e-07, 3.64494667e-07, 1.38673926e-07},
    {0.0664534047,    0.0630420968,    0.0532746576,    0.0388020612,    0.0219511241,    0.00518491166,
     -0.0093803741,   -0.0203071777,   -0.0269794688,   -0.0295832623,   -0.0288428888,   -0.0257880371,
     -0.0214896929,   -0.016843833,    -0.0124922255,   -0.00880200975,  -0.00590909086,  -0.00378793431,
     -0.00232254178,  -0.00136374007,  -0.000767607591, -0.000414600596, -0.000214996326, -0.000107100583,
     -5.12855222e-05, -2.36131091e-05, -1.04580276e-05, -4.45666456e-06, -1.82802216e-06, -7.21833146e-07,
     -2.74458586e-07, -1.00508061e-07},
    {1.16016349e-06, 0.0367376469,   0.0697094053,   0.0957813412,   0.112928711,    0.120507687,    0.11918097,
     0.110640109,    0.0971366614,   0.0810525492,   0.0644879714,   0.0490395799,   0.0357067809,   0.0249266587,
     0.0167005025,   0.0107474513,   0.00664774701,  0.00395437423,  0.00226313388,  0.00124660705,  0.00066110742,
     0.000337649399, 0.000166112164, 7.87355384e-05, 3.59625265e-05, 1.58309194e-05, 6.71734642e-06, 2.74775653e-06,
     1.08366282e-06, 4.12084631e-07, 1.51110001e-07, 5.34378799e-08},
    {-0.398942292,    -0.3919909,      -0.37185511,    -0.340567589,    -0.301137418,    -0.257073909,
     -0.211876646,    -0.168593183,    -0.1295176,     -0.0960614979,   -0.0687862709,   -0.0475538932,
     -0.0317396522,   -0.0204526745,   -0.0127241816,  -0.00764260581,  -0.00443184841,  -0.00248119095,
     -0.00134111883,  -0.000699851953, -0.0003525957,  -0.000171506079, -8.05404197e-05, -3.65157612e-05,
     -1.59837309e-05, -6.75473075e-06, -2.7559397e-06, -1.08558379e-06, -4.12846362e-07, -1.51581276e-07,
     -5.37321867e-08, -1.83888709e-08},
    {0.5,
     0.425634325,
     0.353830248,
     0.286887705,
     0.22662735,
     0.174250707,
     0.130294517,
     0.0946757421,
     0.066807203,
     0.0457536243,
     0.0303963609,
     0.0195800792,
     0.0122244731,
     0.00739460718,
     0.00433244836,
     0.00245790114,
     0.00134989806,
     0.000717542309,
     0.000369078451,
     0.000183669952,
     8.84172914e-05,
     4.11674664e-05,
     1.85367389e-05,
     8.07094511e-06,
     3.39767348e-06,
     1.38281371e-06,
     5.44042393e-07,
     2.06897099e-07,
     7.60496306e-08,
     2.70166876e-08,
     9.27540444e-09,
     3.07733639e-09},
};
constexpr double normal_width = 3.0 / 16;

// 2^(k/32), for k = 0 to 31. With `exponents`, adding k << 18 to the bits gives 2^(k/32 + 32).
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

// The elements selected by the last five bits of each lane.
Lanes lookup(const Lanes &index, const float *table) {
    auto half = [&](int at) {
        return llvm::ConstantDataVector::get(index.ir->getContext(), llvm::ArrayRef<float>(table + at, register_lanes));
    };
    return index.with(index.ir->CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_512, {},
                                                {half(0), index.bits().v, half(register_lanes)}));
}

} // namespace

// Applies f to whole registers, padding the last one, so that results do not depend on the number
// of lanes.
Value *MathFunctions::by_registers(Value *x, const std::function<Lanes(Lanes)> &f) {
    std::vector<Value *> results;
    for (int first = 0; first < lanes(x); first += register_lanes) {
        const int count = std::min(register_lanes, lanes(x) - first);
        const Lanes piece = lanes_for_math(widened(slice(x, first, count), register_lanes));
        results.push_back(slice(f(piece).v, 0, count));
    }
    return concat(results);
}

// 2^32 e^(x + low) of x from -110 to 0 in 16 lanes: 2^(m + 32) is a normal number.
Lanes MathFunctions::scaled_exp_by_table(Lanes x, const Lanes *low) {
    const Mad mad{has_fma()};
    const Lanes shifted = mad(x, x.f(32 * M_LOG2E), x.f(0x1.8p23)), n = shifted - x.f(0x1.8p23);
    const double ln2 = static_cast<float>(M_LN2 / 32);
    Lanes r = mad(n, x.f(-ln2), x);
    r = mad(n, x.f(ln2 - M_LN2 / 32), r); // |r| <= ln 2 / 64
    if (low) r = r + *low;
    const Lanes p = mad.polynomial(r, {0.16666667, 0.5, 1, 1});
    return p * (shifted.bits().shl(18) + lookup(shifted, exp_roots(true).of).bits()).floats();
}

// gelu(x) = max(x, 0) - |x| Φ(-|x|), Φ from the table for all but the lanes below -4, whose branch
// is rarely taken.
Value *MathFunctions::gelu_by_table(Value *arg) {
    const Mad mad{has_fma()};
    return by_registers(arg, [&](Lanes x) {
        Lanes a = x.abs();
        a = pick(a > a.f(5.8125), a.f(5.8125), a); // 31 * 3/16
        const Lanes magic = a.f(0x1.8p23), shifted = mad(a, a.f(1 / normal_width), magic);
        const Lanes r = mad(shifted - magic, a.f(-normal_width), a);
        Lanes p = lookup(shifted, normal_pieces[0]);
        for (size_t power = 1; power < std::size(normal_pieces); power++)
            p = mad(p, r, lookup(shifted, normal_pieces[power]));
        const Lanes usual = mad(-a, p, positive_part(x));

        const Lanes far = x < x.f(-4.0);
        llvm::Value *any = ir_.CreateOrReduce(far.v);
        llvm::BasicBlock *before = ir_.GetInsertBlock(), *tail = block("gelu_tail"), *after = block("gelu");
        ir_.CreateCondBr(any, tail, after, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 10));
        ir_.SetInsertPoint(tail);
        const Lanes both = pick(far, gelu(x), usual);
        tail = ir_.GetInsertBlock();
        ir_.CreateBr(after);
        ir_.SetInsertPoint(after);
        llvm::PHINode *result = ir_.CreatePHI(x.type(), 2);
        result->addIncoming(usual.v, before);
        result->addIncoming(both.v, tail);
        return x.with(result);
    });
}

// e^x = 2^m e^r with m the multiple of 1/32 nearest to x / ln 2. 2^m is a table element times a
// power of two, and e^r a polynomial of degree 2. The bounds keep m in range; a NaN passes through
// them.
Value *MathFunctions::exp_by_table(Value *arg, bool nonpositive) {
    const Mad mad{has_fma()};
    return by_registers(arg, [&](Lanes x) {
        x = pick(x < x.f(-104.0), x.f(-104.0), x);
        if (!nonpositive) x = pick(x > x.f(89.0), x.f(89.0), x);
        // The last five bits of the shifted number select from the table; those above are the
        // exponent.
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
        // 2^(m + 32) is never subnormal, and the polynomial contains the 2^-32.
        const double small = std::ldexp(1.0, -32);
        const Lanes p = mad.polynomial(r, {0.49999997 * small, 1.00001466 * small, small});
        return p * (shifted.bits().shl(18) + lookup(shifted, exp_roots(true).of).bits()).floats();
    });
}

// k, the integer nearest to 8 |x|, is in the last bits of |x| + 1.5 * 2^20, which the instruction
// uses as index. Beyond the bound, at which the last polynomial is 1, erf rounds to 1. A NaN passes
// through the bound and any polynomial.
Value *MathFunctions::erf_by_table(Value *arg) {
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
