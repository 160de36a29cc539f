// Runs code for AMX: on the processor if it has AMX, otherwise instruction by instruction on an
// emulator, which also counts.
// Links: driver
// Levels: no
// Sanitized: --test-case=products*
#include "driver/default_schedule.h"
#include "driver/target.h"
#include "dsl/inout.h"
#include "ops/registry.h"
#include "runtime/kumiko_runtime.h"
#include "schedules/library/conv_filters.h"
#include "support/json.h"
#include "tests/unit/amx_emulator.h"
#include "tests/unit/check_runs.h"
#include "tests/unit/tile_products.h"

using namespace kumiko;

#if defined(__x86_64__) && defined(__linux__)

namespace {

// This processor with AMX, emulated if necessary.
class WithAmx {
public:
    WithAmx() {
        kumiko_set_cpu_features([](uint64_t detected) {
            for (const char *name : {"amx-tile", "amx-int8", "amx-bf16"}) detected |= kumiko_cpu_feature(name);
            return detected;
        });
    }
    ~WithAmx() { kumiko_set_cpu_features(nullptr); }

    AmxEmulator emulator;
    const bool real = kumiko_request_tiles() == 1; // then nothing is emulated or counted
};

Schedule tiled(const Op &op, const std::string &way, const std::string &parallel = "none") {
    return kumiko::tiled(op, Machine::host(), way, parallel);
}

} // namespace

TEST_CASE("products of tiles are the formula's") {
    WithAmx amx;
    for (const TileKind &kind : tile_kinds) {
        for (const auto &[m, n, k] : {std::tuple(32, 32, 64), std::tuple(48, 16, 128), std::tuple(33, 50, 150),
                                      std::tuple(16, 16, 64), std::tuple(70, 100, 65), std::tuple(64, 96, 192)}) {
            const Op op = product(kind.a, kind.b, m, n, k);
            CAPTURE(op.to_string());
            const int64_t before = amx.emulator.counts.products;
            check_runs(tiled(op, kind.name));
            CHECK((amx.real || amx.emulator.counts.products > before));
            CHECK(amx.emulator.fault == "");
        }
    }
}

TEST_CASE("batches, transposes, fused ends, sizes at run time, threads") {
    WithAmx amx;
    for (bool ta : {false, true}) {
        for (bool tb : {false, true}) {
            ops::MatmulOptions o;
            o.transpose_a = ta, o.transpose_b = tb;
            check_runs(tiled(product(u8, i8, 40, 36, 70, o), "amx.tdpbusd"));
            o.batch = 2;
            check_runs(tiled(product(bf16, bf16, 36, 40, 70, o), "amx.tdpbf16ps"));
        }
    }
    ops::MatmulOptions fused;
    fused.bias = true;
    fused.activation = "relu";
    check_runs(tiled(product(bf16, bf16, 40, 50, 64, fused), "amx.tdpbf16ps"));
    const Op open = product(u8, i8, Size("M"), Size("N"), Size("K"));
    for (const Sizes &sizes : {Sizes{{"M", 40}, {"N", 37}, {"K", 130}}, Sizes{{"M", 16}, {"N", 16}, {"K", 64}},
                               Sizes{{"M", 64}, {"N", 64}, {"K", 256}}, Sizes{{"M", 1}, {"N", 3}, {"K", 2}}})
        check_runs(tiled(open, "amx.tdpbusd"), sizes);
    ops::MatmulOptions batches;
    batches.batch = 2;
    const Expr M = Size("M"), N = Size("N");
    for (const auto &[m, n] : {std::pair(M, N), std::pair(M, Expr(40)), std::pair(Expr(40), N)}) {
        const Sizes sizes = {{"M", 37}, {"N", 50}};
        check_runs(tiled(product(bf16, bf16, m, n, 70, batches), "amx.tdpbf16ps"), sizes);
        check_runs(default_schedule(product(u8, i8, m, n, 70, batches), Machine::host()), sizes);
    }
    for (const char *parallel : {"rows", "columns"})
        check_runs(tiled(product(i8, i8, 70, 100, 200), "amx.tdpbssd", parallel));
    CHECK(amx.emulator.fault == "");
    // Tiles are released, so that later context switches of the thread are faster.
    CHECK((amx.real || amx.emulator.counts.releases > 0));
}

TEST_CASE("sums stay in tiles, and a shared operand is loaded once") {
    WithAmx amx;
    const int m = 64, n = 128, k = 640;
    check_runs(tiled(product(u8, i8, m, n, k), "amx.tdpbusd"));
    if (amx.real) return;
    const AmxEmulator::Counts &c = amx.emulator.counts;
    const int64_t tiles = m / 16 * (n / 16), products = tiles * k / 64;
    CHECK(c.products == products);
    CHECK(c.stores == tiles);
    // Two tiles of A and two of B serve four products; sums start as zeros.
    CHECK(c.loads == products);
}

TEST_CASE("partial tiles: tiles shifted inwards, and steps padded with zeros") {
    WithAmx amx;
    for (const auto &[m, n, k] : {std::tuple(21, 64, 128), std::tuple(64, 64, 148), std::tuple(45, 70, 65)}) {
        const Schedule s = tiled(product(u8, i8, m, n, k), "amx.tdpbusd");
        CAPTURE(s.op().to_string());
        check_runs(s);
        const std::string body = body_of(s);
        CHECK(body.find("amx.tdpbusd") != std::string::npos);
        CHECK(body.find("vpdpbusd") == std::string::npos);
        // There are no scalar products.
        CHECK(body.find("*int32x") == std::string::npos);
        CHECK(body.find("(int32)A") == std::string::npos);
    }
    CHECK(amx.emulator.fault == "");
}

TEST_CASE("run-time sizes: dot products compute partial tiles") {
    if (!Machine::host().has("avx512_vnni")) return;
    WithAmx amx;
    const Schedule s = tiled(product(u8, i8, Size("M"), 64, Size("K")), "amx.tdpbusd");
    check_runs(s, {{"M", 21}, {"K", 148}});
    const std::string body = body_of(s);
    CHECK(body.find("amx.tdpbusd") != std::string::npos);
    CHECK(body.find("vpdpbusd") != std::string::npos);
    CHECK(amx.emulator.fault == "");
}

TEST_CASE("panels of B packed ahead of time") {
    WithAmx amx;
    ops::MatmulOptions batches;
    batches.batch = 2;
    for (const auto &[m, n, k] : {std::tuple(32, 64, 64), std::tuple(37, 50, 70), std::tuple(64, 200, 300)}) {
        for (const TileKind &kind : tile_kinds) {
            for (const ops::MatmulOptions &o : {ops::MatmulOptions{}, batches}) {
                const Op op = product(kind.a, kind.b, m, n, k, o);
                CAPTURE(op.to_string());
                library::MatmulParameters p = library::matmul_parameters(op, Machine::host(), PackedBy::Caller);
                CHECK(std::string(p.multiply) == kind.name);
                p.pack_b = Choice("ahead", {"ahead"});
                check_runs(library::schedule_matmul(op, Machine::host(), p));
            }
        }
    }
    CHECK(amx.emulator.fault == "");
}

TEST_CASE("convolutions of images with channels last") {
    WithAmx amx;
    struct Case {
        int n, c, h, w, o, window, stride, padding;
    };
    for (const Case &c :
         {Case{1, 64, 7, 7, 32, 1, 1, 0}, Case{2, 64, 9, 8, 40, 3, 1, 1}, Case{1, 128, 11, 33, 48, 1, 2, 0},
          Case{1, 64, 6, 60, 64, 3, 1, 1}, Case{1, 128, 9, 57, 16, 3, 2, 1}, Case{1, 64, 5, 17, 17, 3, 1, 0},
          Case{1, 64, 6, 28, 32, 3, 1, 1}, Case{2, 64, 7, 30, 48, 3, 1, 1}, Case{1, 64, 5, 46, 32, 3, 1, 1}}) {
        for (const auto &[x, w] : {std::pair(u8, i8), std::pair(i8, i8), std::pair(bf16, bf16)}) {
            for (const bool fused : {false, true}) {
                Json parameters = {{"n", c.n},
                                   {"c", c.c},
                                   {"h", c.h},
                                   {"w", c.w},
                                   {"o", c.o},
                                   {"kh", c.window},
                                   {"kw", c.window},
                                   {"stride", c.stride},
                                   {"padding", c.padding},
                                   {"layout", "nhwc"},
                                   {"type", type_name(x)},
                                   {"w_type", type_name(w)}};
                if (x != bf16) parameters["output"] = fused ? "u8" : "i32";
                if (fused && x != bf16) parameters["requantise"] = true, parameters["zero_point"] = 3;
                if (fused && x == bf16) parameters["bias"] = true, parameters["activation"] = "relu";
                const Op op = ops::make("conv2d", parameters);
                CAPTURE(op.to_string());
                library::ConvFiltersParameters p =
                    library::conv_filters_parameters(op, Machine::host(), PackedBy::Caller);
                CHECK(std::string(p.multiply).starts_with("amx."));
                for (const char *image : {"direct", "copied"}) {
                    for (const auto &[weights, outer] : {std::pair("ahead", "rows"), std::pair("copied", "filters")}) {
                        if (image != std::string("copied") && image != std::string(p.image)) continue;
                        p.weights = Choice(weights, {"ahead", "copied"});
                        p.image = Choice(image, {"direct", "copied"});
                        p.outer = Choice(outer, {"rows", "filters"});
                        p.parallel = Flag(outer == std::string("rows"));
                        check_runs(library::schedule_conv_filters(op, Machine::host(), p));
                    }
                }
            }
        }
    }
    CHECK(amx.emulator.fault == "");
}

TEST_CASE("sums added to an array compute no element twice") {
    WithAmx amx;
    Axis i("i", 40), j("j", 50), k("k", 70);
    Tensor A = input("A", u8, {i, k}), B = input("B", i8, {k, j}), C = inout("C", i32, {i, j});
    const Expr product = cast(i32, A(i, k)) * cast(i32, B(k, j));
    const Op op("accumulate", {A, B, C}, {update(C, C(i, j) + sum(product, k))});
    const int64_t before = amx.emulator.counts.products;
    check_runs(tiled(op, "amx.tdpbusd"));
    CHECK((amx.real || amx.emulator.counts.products > before));
    CHECK(amx.emulator.fault == "");
}

TEST_CASE("the emulator agrees with the manual") {
    AmxEmulator emulator;
    if (kumiko_request_tiles() == 1) return;
    // tileloadd before ldtilecfg: a processor would fault.
    alignas(64) uint8_t memory[1024] = {};
    asm volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(memory), "r"(int64_t(64)) : "memory");
    CHECK(emulator.fault == "an instruction on tiles before they are configured");
}

#endif
