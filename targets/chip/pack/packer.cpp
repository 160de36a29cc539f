#include "targets/chip/pack/packer.h"

#include "sim/assembler.h"
#include "sim/operations.h"
#include "support/error.h"
#include "support/stop.h"

#include <algorithm>
#include <fmt/format.h>

namespace kumiko::chip {

using sim::Mv;
using sim::Resource;

namespace {

constexpr uint32_t lm0_any = bit(Unit::Lm0Read) | bit(Unit::Lm0Write),
                   lm1_any = bit(Unit::Lm1Read) | bit(Unit::Lm1Write);
constexpr uint32_t lm_bits = lm0_any | lm1_any;
constexpr uint32_t precisions = bit(Unit::F16) | bit(Unit::F32);

} // namespace

Packer::Packer(const sim::Config &config, Packing packing, const std::atomic<bool> *stop)
    : config_(config), packing_(packing), stop_(stop), moves_(config), tags_(16) {
    const auto size = [&](Resource r, int64_t n) { times_[size_t(r)].resize(size_t(n)); };
    size(Resource::Lm0, config.sizes.lm);
    size(Resource::Lm1, config.sizes.lm);
    size(Resource::Grf0, config.sizes.grf);
    size(Resource::Grf1, config.sizes.grf);
    size(Resource::T, 8);
    size(Resource::Mask, 32);
    size(Resource::Face, 2);
    size(Resource::L1bm, config.sizes.l1bm);
    size(Resource::L2bm, config.sizes.l2bm);
}

void Packer::reserve(int64_t steps) {
    if (int64_t(words_.size()) >= steps) return;
    words_.resize(size_t(steps));
    used_.resize(size_t(steps) + 64);
}

void Packer::derive_accesses(const MicroOp &op) {
    if (op.parts() > int(units_.size())) throw InternalError("an operation takes more than two steps");
    for (int p = 0; p < int(units_.size()); p++) {
        units_[size_t(p)] = 0;
        accesses_[size_t(p)].clear();
        if (p >= op.parts()) continue;
        units_[size_t(p)] = units_of(op.word(p));
        sim::accesses(op.word(p), config_, accesses_[size_t(p)]);
    }
}

// The earliest step that the data dependences of the operation allow.
int64_t Packer::ready() const {
    int64_t step = 0;
    for (size_t p = 0; p < accesses_.size(); p++)
        for (const sim::Access &a : accesses_[p]) step = std::max(step, ready(a) - int64_t(p));
    return step;
}

int64_t Packer::ready(const sim::Access &access) const {
    const std::vector<Times> &all = times_[size_t(access.resource)];
    if (access.resource == Resource::Forward) return 0;
    const int after_l1 = gap(access.resource, sim::Slot::L1, access.slot, config_.gaps),
              after_l2 = gap(access.resource, sim::Slot::L2, access.slot, config_.gaps),
              after_read = sim::after_read(access.resource);
    int32_t step = 0;
    for (int i = 0; i < access.count; i++) {
        const int64_t first = access.at[size_t(i)], end = first + access.width;
        if (first < 0 || end > int64_t(all.size()))
            throw InternalError(fmt::format("an operation touches word {} of a memory of {}", end - 1, all.size()));
        const Times *const last = all.data() + end;
        if (access.write) {
            for (const Times *w = all.data() + first; w != last; w++)
                step = std::max({step, w->read + after_read, w->written + 1, w->ready});
        } else {
            for (const Times *w = all.data() + first; w != last; w++)
                step = std::max({step, w->written + 1 + (w->by_l2 ? after_l2 : after_l1), w->ready});
        }
    }
    return step;
}

bool Packer::fits_part(uint32_t uses, int64_t s) const {
    const auto at = [&](int64_t step) { return step >= 0 && step < int64_t(used_.size()) ? used_[size_t(step)] : 0u; };
    const uint32_t have = at(s);
    if (have & uses & ~precisions) return false;
    if ((uses & lm0_any) && (have & lm0_any)) return false;
    if ((uses & lm1_any) && (have & lm1_any)) return false;
    // MAU and MW share one precision.
    if ((uses & precisions) && (have & precisions) && (uses & precisions) != (have & precisions)) return false;
    const auto matrix_units = [](uint32_t u) {
        return int((u & bit(Unit::Mau)) != 0) + int((u & bit(Unit::Mw)) != 0) + int((u & bit(Unit::Mr)) != 0);
    };
    if (matrix_units(have | uses) > 2) return false;
    // An LM cannot be read for some steps after a write, at any address.
    if (uses & lm_bits) {
        const int gap = config_.gaps.lm;
        for (int g = 1; g <= gap; g++) {
            const uint32_t before = at(s - g), after = at(s + g);
            if ((uses & bit(Unit::Lm0Read)) && (before & bit(Unit::Lm0Write))) return false;
            if ((uses & bit(Unit::Lm1Read)) && (before & bit(Unit::Lm1Write))) return false;
            if ((uses & bit(Unit::Lm0Write)) && (after & bit(Unit::Lm0Read))) return false;
            if ((uses & bit(Unit::Lm1Write)) && (after & bit(Unit::Lm1Read))) return false;
        }
    }
    return true;
}

bool Packer::fits(const Units &units, int64_t step) const {
    for (size_t p = 0; p < units.size(); p++) {
        if (!units[p]) continue;
        const size_t s = size_t(step) + p;
        if (!fits_part(units[p], int64_t(s))) return false;
        if (packing_ != Packing::Full && s < used_.size() && used_[s]) return false;
    }
    return true;
}

// Reserved units stay reserved, so a step where such a combination did not fit need not be tried
// again.
int64_t Packer::first_fit(const Units &units, int64_t from) {
    const uint64_t key = uint64_t(units[0]) | uint64_t(units[1]) << 32;
    std::vector<int32_t> &next = free_[key];
    const auto grow = [&](int64_t n) {
        for (int64_t i = int64_t(next.size()); i <= n; i++) next.push_back(int32_t(i));
    };
    const auto find = [&](int64_t s) {
        grow(s);
        int64_t root = s;
        while (next[size_t(root)] != root) {
            root = next[size_t(root)];
            grow(root);
        }
        for (int64_t i = s; i != root;) { // path compression
            const int64_t after = next[size_t(i)];
            next[size_t(i)] = int32_t(root);
            i = after;
        }
        return root;
    };
    int64_t step = find(from);
    while (!fits(units, step)) {
        grow(step + 1);
        next[size_t(step)] = int32_t(step + 1);
        step = find(step + 1);
    }
    return step;
}

void Packer::commit(const sim::Word &word, uint32_t units, int64_t step) {
    reserve(step + 1);
    if (const auto why = sim::merge(words_[size_t(step)], word))
        throw InternalError("two operations packed into one word do not go together: " + *why);
    used_[size_t(step)] |= units;
    for (int u = 0; u < 32; u++) busy_[size_t(u)] += units >> u & 1;
}

void Packer::record_accesses(int64_t step) {
    for (size_t p = 0; p < accesses_.size(); p++) {
        const int32_t s = int32_t(step) + int32_t(p);
        for (const sim::Access &access : accesses_[p]) {
            if (access.resource == Resource::Forward) continue;
            std::vector<Times> &all = times_[size_t(access.resource)];
            const bool by_l2 = access.slot == sim::Slot::L2;
            for (int i = 0; i < access.count; i++) {
                Times *w = all.data() + access.at[size_t(i)];
                Times *const last = w + access.width;
                if (access.write) {
                    for (; w != last; w++) w->written = s, w->by_l2 = by_l2;
                } else {
                    for (; w != last; w++) w->read = std::max(w->read, s);
                }
            }
        }
    }
}

void Packer::log_operation(int64_t step, const sim::Word &word) {
    constexpr int64_t most = 1000;
    if (operations_ <= most) first_ += fmt::format("{:>6}  {}\n", step, sim::disassemble(word));
    if (operations_ == most) first_ += "        …\n";
}

int64_t Packer::place(const MicroOp &op, int64_t earliest) {
    end_when_stopped(stop_, "compiling");
    operations_++;
    derive_accesses(op);
    if (packing_ == Packing::Counted) {
        const int64_t step = std::max(earliest, ready());
        tally_.operations++;
        for (int p = 0; p < op.parts(); p++) tally_.add(op.word(p), units_[size_t(p)], accesses_[size_t(p)], step + p);
        record_accesses(step);
        return step;
    }
    if (packing_ == Packing::Naive) earliest = std::max(earliest, last_ + 1);
    const int64_t step = first_fit(units_, std::max(earliest, ready()));
    for (int p = 0; p < op.parts(); p++) {
        commit(op.word(p), units_[size_t(p)], step + p);
        log_operation(step + p, op.word(p));
    }
    record_accesses(step);
    last_ = step + op.parts() - 1;
    return step;
}

// The earliest step that the words they move allow.
int64_t Packer::ready(const std::vector<Mv> &moves) const {
    const std::vector<Times> &l2bm = times_[size_t(Resource::L2bm)];
    int64_t from = 0;
    for (const Mv &m : moves) {
        const int64_t end = m.l2bm + words_of(m, config_);
        if (end > int64_t(l2bm.size())) throw InternalError("a move leaves L2BM");
        const bool load = is_load(m);
        for (int64_t a = m.l2bm; a < end; a++) {
            const Times &w = l2bm[size_t(a)];
            const int64_t data = load ? std::max(w.read, w.written) + 1 : w.written + 1 + config_.gaps.l2bm_mv;
            from = std::max({from, data, int64_t(w.ready)});
            if (w.stored_l2bs & m.l2bs) from = std::max(from, int64_t(w.stored));
        }
    }
    return from;
}

void Packer::record_accesses(const Mv &m, int64_t issued, int64_t done) {
    const bool load = is_load(m);
    const int64_t end = m.l2bm + words_of(m, config_);
    for (int64_t a = m.l2bm; a < end; a++) {
        Times &w = times_[size_t(Resource::L2bm)][size_t(a)];
        if (load) {
            w.written = int32_t(issued);
            w.by_l2 = false;
            w.ready = std::max(w.ready, int32_t(done));
        } else {
            // Another L2B may store its own words meanwhile.
            if (w.stored <= issued) w.stored_l2bs = 0;
            w.stored_l2bs |= m.l2bs;
            w.stored = std::max(w.stored, int32_t(done));
            w.read = std::max(w.read, int32_t(done));
        }
    }
}

// All are issued at once; queues never fill up.
int64_t Packer::count_moves(const std::vector<Mv> &moves, int64_t from) {
    int64_t done = from;
    for (const Mv &m : moves) {
        operations_++;
        tally_.add(m, config_);
        done = std::max(done, Tally::done(m, from, config_));
    }
    for (const Mv &m : moves) record_accesses(m, from, done);
    tally_.flow = std::max(tally_.flow, done);
    return done;
}

int64_t Packer::place(const std::vector<Mv> &moves, int64_t earliest) {
    end_when_stopped(stop_, "compiling");
    int64_t from = packing_ == Packing::Naive ? std::max(earliest, last_ + 1) : earliest;
    from = std::max(from, ready(moves));
    if (packing_ == Packing::Counted) return count_moves(moves, from);
    // One tag, and one wait after the last of them; several if no tag is free for that long.
    std::vector<int64_t> issued;
    int64_t all = 0;
    for (size_t next = 0; next < moves.size();) {
        MoveBatch batch;
        while (next < moves.size() && place_move(moves[next], from, batch)) next++;
        const int64_t done = first_fit({bit(Unit::Control)}, batch.done);
        const int tag = free_tag(batch.first, done);
        tags_[size_t(tag)][batch.first] = done;
        sim::Word wait;
        wait.control.wait = uint8_t(tag);
        commit(wait, bit(Unit::Control), done);
        for (const int64_t s : batch.issued) {
            words_[size_t(s)].mv.tag = uint8_t(tag);
            sim::Word issue;
            issue.mv = words_[size_t(s)].mv;
            log_operation(s, issue);
        }
        issued.insert(issued.end(), batch.issued.begin(), batch.issued.end());
        all = std::max(all, done);
    }
    for (size_t i = 0; i < moves.size(); i++) record_accesses(moves[i], issued[i], all);
    last_ = all;
    return all;
}

int64_t Packer::movable(int64_t at, int64_t words) const {
    int64_t step = 0;
    for (int64_t a = at; a < at + words; a++)
        step = std::max<int64_t>(step, times_[size_t(Resource::L2bm)][size_t(a)].written + 1 + config_.gaps.l2bm_mv);
    return step * sim::cycles_per_step + config_.moves.dram_start;
}

bool Packer::place_move(const Mv &move, int64_t from, MoveBatch &batch) {
    const int near = config_.moves.issue_steps - 1;
    for (int64_t s = from;;) {
        bool room = packing_ == Packing::Full || s >= int64_t(used_.size()) || !used_[size_t(s)];
        for (int64_t i = s - near; room && i <= s + near; i++) {
            if (i >= 0 && i < int64_t(used_.size()) && (used_[size_t(i)] & bit(Unit::Mv))) room = false;
        }
        if (!room) {
            s++;
            continue;
        }
        MoveBatch with = batch;
        bool tagged = true;
        // The wait is placed in the first word after the last end that has room for it.
        const auto times = moves_.enter(move, s, [&](const sim::MoveTimes &t) {
            const int64_t done = int64_t((t.end + sim::cycles_per_step - 1) / sim::cycles_per_step);
            with.first = std::min(with.first, s);
            with.done = std::max({with.done, done, s + 1});
            tagged = free_tag(with.first, first_fit({bit(Unit::Control)}, with.done)) >= 0;
            return tagged;
        });
        // Later would take still longer.
        if (!times && !tagged && !batch.issued.empty()) return false;
        if (!times) {
            s = moves_.next_try(s);
            continue;
        }
        batch = std::move(with);
        batch.issued.push_back(s);
        sim::Word issue;
        issue.mv = move;
        commit(issue, bit(Unit::Mv), s);
        operations_++;
        return true;
    }
}

int Packer::free_tag(int64_t begin, int64_t end) const {
    for (int t = 0; t < int(tags_.size()); t++) {
        // Intervals are disjoint: of those that begin early enough, the last one ends last.
        const auto &taken = tags_[size_t(t)];
        const auto after = taken.upper_bound(end);
        if (after == taken.begin() || std::prev(after)->second < begin) return t;
    }
    return -1;
}

sim::Program Packer::finish() {
    sim::Program program;
    program.machine = config_.name;
    sim::Word end;
    end.control.end = true;
    commit(end, bit(Unit::Control), first_fit({bit(Unit::Control)}, int64_t(words_.size())));
    program.words = std::move(words_);
    return program;
}

} // namespace kumiko::chip
