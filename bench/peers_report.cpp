// Prints the rates of the peers and the machine without any kernel of ours: a check of the
// measuring tools.
//   peers_report [THREADS]
#include "bench/peak.h"
#include "bench/peers.h"
#include "bench/timer.h"
#include "support/table.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

using namespace kumiko;
using namespace kumiko::bench;

namespace {

struct Line {
    std::string name, unit, note;
    double amount; // per run, in 1e9 of the unit
    TimedWork work;
};

std::vector<float> numbers(int64_t count) {
    std::vector<float> out(count);
    for (int64_t i = 0; i < count; i++) out[i] = static_cast<float>(i * 7 % 13) / 13 - 0.4f;
    return out;
}

// With several threads, idle ones of one library spin while the next is timed.
bool spinning = false;

void print(const char *title, const std::vector<Line> &lines) {
    std::vector<TimedWork> work;
    for (const Line &l : lines) work.push_back(l.work);
    std::vector<Timing> timings = time_interleaved(work, {.pause_seconds = lines.size() > 2 && spinning ? 0.005 : 0});
    Table table({title, "median", "best", "unit", "spread", "note"});
    for (size_t i = 0; i < lines.size(); i++) {
        const Timing &t = timings[i];
        table.row({lines[i].name, fmt::format("{:.1f}", lines[i].amount / t.median),
                   fmt::format("{:.1f}", lines[i].amount / t.min), lines[i].unit,
                   fmt::format("{:.1f} %", 100 * t.spread()), lines[i].note});
    }
    std::printf("%s\n", table.text().c_str());
}

void print_machine(int threads) {
    std::vector<CountedWork> kept;
    for (const std::string &v : fma_vectors()) kept.push_back(fma_peak(threads, v));
    kept.push_back(copy_bandwidth(threads));
    std::vector<Line> lines;
    for (const CountedWork &w : kept) {
        lines.push_back(
            {w.name, w.flops > 0 ? "GFLOP/s" : "GB/s", "", (w.flops > 0 ? w.flops : w.bytes) * 1e-9, w.run});
    }
    print("machine", lines);
    for (Peer *peer : peers()) {
        if (!peer->available()) {
            std::printf("%s: %s\n", peer->name().c_str(), peer->reason().c_str());
            continue;
        }
        std::printf("%s %s\n", peer->name().c_str(), peer->version().c_str());
    }
}

void print_matmuls(int threads) {
    const PeerOptions plain{.threads = threads}, packed{.threads = threads, .prepack_weights = true};
    const CountedWork peak = fma_peak(threads);
    for (int64_t size : {64, 256, 512, 1024}) {
        MatmulCase s{size, size, size};
        std::vector<float> a = numbers(size * size), b = a, c(size * size);
        std::vector<Line> lines = {{"peak", "GFLOP/s", "", peak.flops * 1e-9, peak.run}};
        for (Peer *peer : peers()) {
            for (const PeerOptions &o : {plain, packed}) {
                if (auto k = peer->matmul(s, a.data(), b.data(), c.data(), o)) {
                    lines.push_back({peer->name() + (o.prepack_weights ? ", packed" : ""), "GFLOP/s", k->note,
                                     s.flops() * 1e-9, k->work});
                }
            }
        }
        print(fmt::format("matmul {}", size).c_str(), lines);
    }
}

void print_convolutions(int threads) {
    const PeerOptions packed{.threads = threads, .prepack_weights = true},
        own{.threads = threads, .prepack_weights = true, .own_activations = true};
    struct Named {
        const char *name;
        ConvCase shape;
    };
    const Named convs[] = {{"conv 64 3x3 56x56", {1, 64, 56, 56, 64, 3, 3, 1, 1}},
                           {"conv 256->64 1x1 56x56", {1, 256, 56, 56, 64, 1, 1}},
                           {"conv 512 3x3 7x7", {1, 512, 7, 7, 512, 3, 3, 1, 1}},
                           {"conv 3->64 7x7/2 224x224", {1, 3, 224, 224, 64, 7, 7, 2, 3}},
                           {"depthwise 144 3x3 56x56", {1, 144, 56, 56, 144, 3, 3, 1, 1, 1, 144}}};
    for (const auto &[name, s] : convs) {
        std::vector<float> src = numbers(s.n * s.c * s.h * s.w),
                           weights = numbers(s.filters * s.c / s.groups * s.r * s.s);
        std::vector<float> dst(s.n * s.filters * s.out_h() * s.out_w());
        std::vector<Line> lines;
        for (Peer *peer : peers()) {
            for (const PeerOptions &o : {packed, own}) {
                if (auto k = peer->conv2d(s, src.data(), weights.data(), dst.data(), o)) {
                    lines.push_back({peer->name() + (o.own_activations ? ", own layout" : ", nchw"), "GFLOP/s", k->note,
                                     s.flops() * 1e-9, k->work});
                }
            }
        }
        print(name, lines);
    }
}

void print_rows(int threads) {
    const PeerOptions plain{.threads = threads};
    RowsCase rows{"softmax", 1536, 128}, norm{"layer_norm", 512, 768};
    std::vector<float> x = numbers(4 << 20), y(x.size()), scale = numbers(768);
    std::vector<Line> lines;
    for (Peer *peer : peers()) {
        if (auto k = peer->rows(rows, x.data(), nullptr, nullptr, y.data(), plain)) {
            lines.push_back({peer->name() + " softmax 1536x128", "GB/s", k->note, rows.bytes() * 1e-9, k->work});
        }
        if (auto k = peer->rows(norm, x.data(), scale.data(), scale.data(), y.data(), plain)) {
            lines.push_back({peer->name() + " layer norm 512x768", "GB/s", k->note, norm.bytes() * 1e-9, k->work});
        }
        for (const char *function : {"relu", "gelu", "exp"}) {
            if (auto k = peer->elementwise(function, 4 << 20, x.data(), y.data(), plain)) {
                lines.push_back({peer->name() + " " + function + " 4Mi", "GB/s", k->note, 8e-9 * (4 << 20), k->work});
            }
        }
    }
    print("rows and elements", lines);
}

} // namespace

int main(int argc, char **argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
    spinning = threads > 1;
    print_machine(threads);
    print_matmuls(threads);
    print_convolutions(threads);
    print_rows(threads);
}
