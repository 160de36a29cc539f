// The stream: selects the next word, and computes the totals of the run.
#include "sim/engine/runner.h"
#include "sim/operations.h"
#include "support/stop.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace kumiko::sim {

namespace {

bool uses_slot(const Word &w, Slot slot) {
    switch (slot) {
    case Slot::Control:
        return !(w.control == Control{});
    case Slot::Mv:
        return w.mv.op != MvOp::None;
    case Slot::L2:
        return w.l2.op != L2Op::None;
    case Slot::L1:
        return w.l1.op != L1Op::None;
    case Slot::MatrixWrite:
        return w.mw.on;
    case Slot::Mau:
        return w.mau.op != MauOp::None;
    case Slot::MatrixRead:
        return w.mr.on;
    case Slot::Alu:
        return w.alu.op != AluOp::None;
    case Slot::Mask:
        return w.mask.mode != MaskMode::None;
    }
    return false;
}

// Rounding to nearest even with subnormals, whatever mode the caller has set.
class StandardFloats {
public:
#if defined(__SSE2__)
    StandardFloats() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
    ~StandardFloats() { _mm_setcsr(saved_); }

private:
    unsigned saved_;
#endif
};

size_t l2_piece(const Config &c) {
    return size_t(cycles_per_step) * size_t(std::max(2 * c.links.l2_broadcast, c.links.l2_scatter * c.l1bs));
}

void count_links(const Config &c, const Moves &moves, const PlannedWord &p, uint64_t times, Run &run) {
    const Word &w = p.word;
    const auto add = [&](Link link, uint64_t bytes) { run.link_bytes[size_t(link)] += bytes * times; };
    constexpr uint64_t t = cycles_per_step;
    if (w.mv.op != MvOp::None) {
        const Moves::Traffic traffic = moves.traffic(w.mv);
        const bool load = is_load(w.mv);
        add(w.mv.pdm ? load ? Link::PdmRead : Link::PdmWrite : load ? Link::DramRead : Link::DramWrite, traffic.memory);
        add(Link::L2bmIn, traffic.l2bm_in);
        add(Link::L2bmOut, traffic.l2bm_out);
    }
    const uint64_t l2bs = uint64_t(c.total_l2bs()), l1bs = uint64_t(std::popcount(p.l2_l1bs));
    if (w.l2.op != L2Op::None) {
        const L2Info &i = info(w.l2.op);
        add(i.multicast() ? Link::L1ToL1
            : i.up        ? Link::L1ToL2
                          : Link::L2ToL1,
            uint64_t(l2_words_of_l1bm(w.l2, c)) * 8 * (i.unicast() ? 1 : l1bs) * l2bs);
    }
    const uint64_t served = uint64_t(std::popcount(p.l1_mabs)) * pes_per_mab * uint64_t(c.total_l1bs());
    if (w.l1.op != L1Op::None) add(is_upward(w.l1.op) ? Link::PeToL1 : Link::L1ToPe, t * w.l1.width * 8 * served);
    const uint64_t pes = uint64_t(c.total_pes());
    for (int s = int(Source::Lm0); s <= int(Source::Grf1); s++)
        add(s <= int(Source::Lm1) ? Link::LmRead : Link::GrfRead, t * p.reads[size_t(s)].width * 8 * pes);
    for (int m = 0; m < 4; m++) add(m < 2 ? Link::LmWrite : Link::GrfWrite, t * p.writes[size_t(m)].width * 8 * pes);
}

} // namespace

Runner::Runner(const Config &config, const SimulateOptions &options, const Kernels &kernels, ChipState &chip,
               const Program &program, HostMemory &memory)
    : config_(config), options_(options), kernels_(kernels), chip_(chip), program_(program, config), memory_(memory),
      hazards_(program_, config), moves_(config, chip, memory), l1b_bytes_(size_t(config.pes_per_l1b()) * 8),
      block_l1bs_(std::max<size_t>(1, 512 / l1b_bytes_)), scratch_(8 * forward_count, block_l1bs_ * l1b_bytes_),
      gathered_(8, chip.plane_bytes), mask_scratch_(16, chip.plane_bytes), selected_(1, chip.plane_bytes),
      l2_data_(l2_piece(config) * size_t(config.total_l2bs())), reduce_(4 * size_t(config.mabs) + 4) {
    for (auto &row : selected_rows_.row) row = selected_[0];
    run_.config = config;
    run_.executed.resize(program_.words.size());
    if (options.trace) {
        run_.traced = std::make_shared<Run::TraceData>();
        for (const PlannedWord &p : program_.words) {
            std::array<std::string, slot_count> texts;
            for (int s = 0; s < slot_count; s++) texts[size_t(s)] = disassemble(p.word, Slot(s));
            run_.traced->slots.push_back(std::move(texts));
            run_.traced->notes.push_back(p.word.note);
        }
    }
}

// Sums up the executed words, and waits for the last results and moves.
void Runner::count_results() {
    run_.steps = uint64_t(step_);
    uint64_t end = cycle_;
    const int64_t settled = hazards_.settled();
    if (settled > step_) end += uint64_t(settled - step_) * cycles_per_step;
    uint16_t unwaited = 0;
    for (const PendingMove &m : hazards_.pending()) {
        end = std::max(end, m.complete);
        unwaited |= uint16_t(1 << m.tag);
    }
    for (int t = 0; t < 16; t++)
        if (unwaited >> t & 1)
            run_.warnings.push_back(
                fmt::format("no word waits for the last moves with tag {}; the end of the program waited", t));
    run_.tail_cycles = end - cycle_;
    run_.idle_cycles[size_t(Idle::Tail)] = run_.tail_cycles;
    run_.dram_busy_cycles = moves_.dram_busy();
    for (size_t i = 0; i < program_.words.size(); i++) {
        const PlannedWord &p = program_.words[i];
        const uint64_t times = run_.executed[i];
        const Word &w = p.word;
        for (int s = 0; s < slot_count; s++) {
            if (uses_slot(w, Slot(s))) run_.slot_steps[size_t(s)] += times;
        }
        const bool f16 = w.mau.precision == Type::F16;
        if (p.matrix)
            (f16 ? run_.matrix_f16_steps : run_.matrix_f32_steps) += times;
        else
            run_.idle_cycles[size_t(p.idle)] += times * cycles_per_step;
        if (w.mau.op == MauOp::Vfma || w.mau.op == MauOp::Vmul)
            (f16 ? run_.vector_f16_steps : run_.vector_f32_steps) += times;
        if (times) count_links(config_, moves_, p, times, run_);
    }
}

Run Runner::run() {
    const StandardFloats standard;
    struct Finish { // also if a word fails: the earlier steps are executed
        Runner &runner;
        ~Finish() { runner.run_waiting(); }
    } finish{*this};
    struct Loop {
        uint32_t first, last, count, done;
        size_t which; // of the word's two reps
    };
    Loop loops[2];
    size_t depth = 0;
    const auto open = [&](uint32_t at, size_t from) {
        const auto &repeat = program_.words[at].word.control.repeat;
        for (size_t r = from; r < 2; r++) {
            if (!repeat[r].count) continue;
            iteration_[depth] = 0;
            loops[depth++] = {at, at + repeat[r].length - 1, repeat[r].count, 0, r};
        }
    };
    const uint32_t count = uint32_t(program_.words.size());
    for (uint32_t at = 0, from = 0; at < count;) {
        if (from < 2) open(at, from);
        if (uint64_t(step_) >= options_.max_steps)
            throw UserError(fmt::format("the program runs for more than {} steps", options_.max_steps));
        end_when_stopped(options_.stop, "the run");
        step(at);
        uint32_t next = at + 1;
        from = 0;
        while (depth && loops[depth - 1].last == at) {
            Loop &l = loops[depth - 1];
            if (++l.done < l.count) {
                iteration_[depth - 1] = l.done;
                next = l.first, from = uint32_t(l.which) + 1;
                break;
            }
            iteration_[--depth] = 0;
        }
        at = next;
    }
    count_results();
    return std::move(run_);
}

} // namespace kumiko::sim
