#include "targets/chip/stage/gather.h"

#include "dsl/print.h"
#include "support/error.h"
#include "targets/chip/counts.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace kumiko::chip {

using namespace sim;
namespace ir = Halide::Internal;

namespace {

constexpr int64_t granules = 4;    // per block
constexpr int64_t together = 8;    // rows whose entries one operation computes
constexpr int64_t of_piece = 32;   // rows whose entries, for one block each, fill 64 LW
constexpr int64_t index_words = 2; // LW of a row in DRAM: its index four times

const ir::Call *read_of(const Expr &e) {
    const ir::Call *call = e.as<ir::Call>();
    return call && call->call_type == ir::Call::Image ? call : nullptr;
}

struct GatherForm {
    std::string table, index;
    int64_t lowest = 0, highest = 0;
};

GatherForm form_of(const StageState &s) {
    const auto refuse = [&](const std::string &what) -> GatherForm {
        throw Unsupported(
            "stage " + s.name() + " " + what +
            "; if an index is read from a tensor, the chip runs Y(i, …, j) = X(clamp(index(i, …), 0, rows - 1), "
            "j), where X has two axes and index is an input of i32");
    };
    GatherForm f;
    const ir::Call *table = read_of(s.def.value);
    if (!table || table->args.size() != 2) return refuse("computes with what it reads");
    f.table = table->name;
    Expr at = table->args[0];
    const auto bound = [&](const Expr &a, const Expr &b, int64_t &value) {
        const auto n = ir::as_const_int(ir::simplify(b));
        if (n) value = *n;
        at = a;
        return n.has_value();
    };
    const ir::Max *max = at.as<ir::Max>();
    if (!max || !bound(max->a, max->b, f.lowest)) return refuse("reads at " + to_string(table->args[0]));
    const ir::Min *min = at.as<ir::Min>();
    if (!min || !bound(min->a, min->b, f.highest)) return refuse("reads at " + to_string(table->args[0]));
    const ir::Call *index = read_of(at);
    const auto is = [&](const Expr &e, size_t axis) {
        const ir::Variable *v = e.as<ir::Variable>();
        return v && v->name == s.def.axes[axis].name();
    };
    if (!index || index->type != Halide::Int(32) || index->args.size() + 1 != s.def.axes.size() ||
        !is(table->args[1], s.def.axes.size() - 1))
        return refuse("reads at " + to_string(table->args[0]) + ", " + to_string(table->args[1]));
    for (size_t d = 0; d < index->args.size(); d++) {
        if (!is(index->args[d], d)) return refuse("reads " + to_string(at));
    }
    f.index = index->name;
    return f;
}

std::vector<int64_t> extents_of(const std::vector<Axis> &axes) {
    std::vector<int64_t> all;
    for (const Axis &a : axes) all.push_back(*ir::as_const_int(ir::simplify(a.extent())));
    return all;
}

class Gather {
public:
    Gather(Context &c, const ScheduleState &state, const StageState &stage)
        : c_(c), stage_(stage), form_(form_of(stage)), groups_(c.config.groups), l2bs_(c.config.l2bs) {
        if (!state.is_input(form_.table) || !state.is_input(form_.index))
            throw Unsupported("stage " + stage.name() + " takes rows of " + form_.table + " by " + form_.index +
                              "; on the chip both are inputs, without copies");
        place(state);
        rooms();
        for (int64_t s = 0; s < steps_; s++) {
            if (s == 0) entries(0);
            if (s + 1 < steps_) entries(s + 1); // while the rows of this step are in flight
            rows(s);
        }
    }

private:
    Context &c_;
    const StageState &stage_;
    GatherForm form_;
    int64_t groups_, l2bs_;
    int64_t pitch_ = 0, blocks_ = 0;                           // LW of a row; blocks of 64 LW of it
    std::vector<int64_t> count_;                               // rows of the result in each group
    int64_t table_ = 0, result_ = 0, index_ = 0, entries_ = 0; // addresses in DRAM
    int64_t chunk_ = 0, steps_ = 0;                            // rows of an L2B per step; steps
    int64_t rows_ = 0;                                         // rows per move
    // Blocks of a row whose entries L2BM holds at a time; fewer than all only if there are few
    // rows.
    int64_t at_once_ = 0;
    Ring l2_index_, l2_entries_, l2_rows_, l1_index_, l1_entries_;
    int64_t offsets_ = 0, made_ = 0; // in GRF1, followed by room for a product; in GRF0

    // Allocates each tensor in DRAM.
    void place(const ScheduleState &state) {
        const std::vector<int64_t> of_table = extents_of(state.axes_of(form_.table)),
                                   of_result = extents_of(stage_.def.axes);
        const int bytes = stage_.def.type.bytes();
        if (bytes != 2 && bytes != 4)
            throw Unsupported(stage_.name() + " has elements of " + kumiko::type_name(stage_.def.type) +
                              "; the chip has types of 16 and 32 bits");
        if (form_.lowest < 0 || form_.highest >= of_table[0])
            throw Unsupported(fmt::format("stage {}: rows {} to {} of {} are not all of {}", stage_.name(),
                                          form_.lowest, form_.highest, form_.table, of_table[0]));
        std::vector<size_t> order(of_result.size());
        std::iota(order.begin(), order.end(), 0);
        const auto result = std::make_shared<const DramOrder>(of_result, bytes, c_.config, order);
        pitch_ = result->pitch();
        blocks_ = pitch_ / block_words;
        result_ = c_.take_dram(result, stage_.name(), true);

        const int64_t rows = of_table[0], length = of_table[1], per_word = 8 / bytes;
        table_ = enter(form_.table, rows * pitch_, "row-major, in each group",
                       [rows, length, per_word, pitch = pitch_, groups = groups_](const WordVisitor &visit) {
                           std::vector<int64_t> elements(static_cast<size_t>(per_word));
                           for (int64_t r = 0; r < rows; r++) {
                               for (int64_t w = 0; w < ceil_div(length, per_word); w++) {
                                   for (int64_t e = 0; e < per_word; e++)
                                       elements[size_t(e)] =
                                           w * per_word + e < length ? r * length + w * per_word + e : -1;
                                   for (int64_t g = 0; g < groups; g++) visit(int(g), r * pitch + w, elements);
                               }
                           }
                       });
        count_.assign(size_t(groups_), 0);
        for (int64_t r = 0; r < result->rows(); r++) {
            const DramPlace p = result->place(r, 0);
            count_[size_t(p.group)] = std::max(count_[size_t(p.group)], p.address / pitch_ + 1);
        }
        // Rows per step: L2BM must hold their entries several times, beside the rows.
        const int64_t room = c_.config.sizes.l2bm / 8 / (2 * blocks_);
        chunk_ = std::clamp<int64_t>(room / of_piece * of_piece, of_piece, 128);
        steps_ = ceil_div(*std::max_element(count_.begin(), count_.end()), chunk_ * l2bs_);
        const int64_t all = steps_ * chunk_ * l2bs_;
        index_ = enter(form_.index, all * index_words, "each four times, in the order of the result's rows",
                       [result, pitch = pitch_](const WordVisitor &visit) {
                           for (int64_t r = 0; r < result->rows(); r++) {
                               const DramPlace p = result->place(r, 0);
                               for (int64_t w = 0; w < index_words; w++)
                                   visit(p.group, p.address / pitch * index_words + w, {r, r});
                           }
                       });
        entries_ = c_.planner.take(Bank::Dram, all * blocks_ * granules / 2, "entries of tables");
        c_.needed[form_.table] = double(std::min(rows, result->rows())) * double(length * bytes);
    }

    int64_t enter(const std::string &name, int64_t words, const std::string &how,
                  std::function<void(const WordVisitor &)> each_word) {
        words = ceil_div(words, block_words) * block_words;
        const int64_t at = c_.planner.take(Bank::Dram, words, name);
        c_.l3 += fmt::format("{} in DRAM at {}, {} LW of a group: {}\n", name, at, words, how);
        c_.tensors.push_back({name, false, at, words, std::move(each_word)});
        return at;
    }

    void rooms() {
        const auto ring = [&](Bank bank, int64_t words, const char *name) {
            return Ring(c_.planner.take(bank, words, name), words);
        };
        l2_index_ = ring(Bank::L2bm, 2 * chunk_ * index_words, "indices");
        at_once_ = blocks_;
        if (chunk_ == of_piece) at_once_ = std::clamp<int64_t>(c_.config.sizes.l2bm / (8 * chunk_), 1, blocks_);
        l2_entries_ = ring(Bank::L2bm, 2 * chunk_ * 2 * at_once_, "entries");
        // As many rows as the schedule's loop directly around a row takes, limited by L2BM, which
        // must hold several times as many.
        const int64_t free = c_.planner.free_words(Bank::L2bm) / block_words;
        int64_t wish = chunk_;
        for (const Relation &r : stage_.relations) {
            const auto *split = std::get_if<SplitRelation>(&r);
            if (split && stage_.order.size() > 1 && split->inner == stage_.order[stage_.order.size() - 2])
                wish = split->factor;
        }
        rows_ = 1;
        while (2 * 2 * rows_ <= free && 2 * rows_ <= std::min(chunk_, wish)) rows_ *= 2;
        l2_rows_ = ring(Bank::L2bm, free / rows_ * rows_ * block_words, "rows");
        l1_index_ = ring(Bank::L1bm, 2 * block_words, "indices");
        l1_entries_ = ring(Bank::L1bm, 4 * block_words, "entries");
        offsets_ = c_.planner.take(Bank::Grf1, 3 * cycles_per_step, "offsets");
        made_ = c_.planner.take(Bank::Grf0, 2 * of_piece / together * cycles_per_step, "entries");
        c_.l2 +=
            fmt::format("stage {}: rows of {} LW of {}, {} at a time in each L2B; tables of granules are made from {}, "
                        "{} rows at a time\n",
                        stage_.name(), pitch_, form_.table, rows_, form_.index, chunk_);
        c_.l2 += c_.planner.to_string();
    }

    static Operand both(int64_t low, int64_t high) { return immediate(uint64_t(uint32_t(low)) | uint64_t(high) << 32); }

    void alu(AluOp op, const Operand &a, const std::optional<Operand> &b, const Operand &to, int pe = -1) {
        MicroOp m;
        Alu u;
        u.op = op;
        u.type = sim::Type::I32;
        u.a = m.read(a);
        if (b) u.b = m.read(*b);
        u.to = m.write(to);
        if (pe >= 0) {
            m.word().mask.mode = MaskMode::Write;
            m.word().mask.entry = uint8_t(16 + pe);
        }
        m.word().alu = u;
        c_.packer.place(m);
    }

    // The moves of an L2B in each group, with the same words in each.
    Mv move(MvOp op, int64_t l2b, int64_t address, int64_t l2bm, int64_t blocks, uint32_t groups) const {
        Mv m;
        m.op = op;
        m.groups = uint16_t(groups);
        m.l2bs = 0;
        for (int64_t g = 0; g < groups_; g++) {
            if (groups >> g & 1) m.l2bs |= 1u << (g * l2bs_ + l2b);
        }
        m.address = uint32_t(address);
        m.l2bm = uint16_t(l2bm);
        m.size = uint16_t(blocks);
        return m;
    }

    int64_t chunk_of(int64_t step, int64_t l2b) const { return step * l2bs_ + l2b; }
    std::vector<int64_t> ready_; // by step: when its entries are in DRAM

    // Computes the entries of a step's rows: row · (granules of a row) + granule, block of 64 LW
    // after block, row after row.
    void entries(int64_t step) {
        const uint32_t all = (1u << groups_) - 1;
        const int64_t words = chunk_ * index_words, l2_index = l2_index_.next(words);
        int64_t l2_made = l2_entries_.next(chunk_ * 2 * at_once_);
        std::vector<Mv> in;
        for (int64_t l = 0; l < l2bs_; l++)
            in.push_back(
                move(MvOp::Broadcast, l, index_ + chunk_of(step, l) * words, l2_index, words / block_words, all));
        c_.packer.place(in);
        if (step == 0) { // PE 2n + 1 computes entries 2 and 3
            const Operand at = grf1(int(offsets_), 1);
            alu(AluOp::Pass, both(0, 1), std::nullopt, at);
            for (const int pe : {1, 3}) alu(AluOp::Pass, both(2, 3), std::nullopt, at, pe);
        }
        for (int64_t piece = 0; piece < chunk_ / of_piece; piece++) {
            const int64_t l1_index = l1_index_.next(block_words), values = of_piece / together;
            l2_step(L2Op::Broadcast, l2_index + piece * block_words, l1_index);
            const auto made = [&](int64_t v) {
                return grf0(int(made_ + (piece % 2 * values + v) * cycles_per_step), 1);
            };
            for (int64_t v = 0; v < values; v++) {
                MicroOp m;
                L1 &l1 = m.word().l1;
                l1.op = L1Op::MabBroadcast;
                l1.at.at = uint16_t(l1_index + v * 16);
                l1.to = m.write(made(v));
                c_.packer.place(m);
                alu(AluOp::Min, made(v), both(form_.highest, form_.highest), made(v));
                alu(AluOp::Max, made(v), both(form_.lowest, form_.lowest), made(v));
                granules_before(made(v));
                alu(AluOp::Add, made(v), grf1(int(offsets_), 1), made(v));
            }
            for (int64_t b = 0; b < blocks_; b++) {
                const int64_t l1_made = l1_entries_.next(block_words);
                for (int64_t v = 0; v < values; v++) {
                    if (b > 0) alu(AluOp::Add, made(v), both(granules, granules), made(v));
                    MicroOp m;
                    L1 l1;
                    l1.op = L1Op::MabReduce; // of one MAB: copies its value
                    l1.reduction = Reduction::AddI32;
                    l1.mabs = 1;
                    l1.at.at = uint16_t(l1_made + v * 16);
                    l1.from = m.read(made(v));
                    m.word().l1 = l1;
                    c_.packer.place(m);
                }
                l2_step(L2Op::UnicastUp, l2_made + b % at_once_ * chunk_ * 2 + piece * block_words, l1_made);
                if ((b + 1) % at_once_ || b + 1 == blocks_) continue;
                leave(step, b + 1 - at_once_, at_once_, l2_made); // in one piece
                l2_made = l2_entries_.next(chunk_ * 2 * at_once_);
            }
        }
        const int64_t rest = (blocks_ - 1) % at_once_ + 1;
        ready_.push_back(leave(step, blocks_ - rest, rest, l2_made));
    }

    // Stores the entries of some blocks of a step's rows to DRAM; returns the step at which they
    // are there.
    int64_t leave(int64_t step, int64_t first, int64_t count, int64_t l2bm) {
        std::vector<Mv> out;
        for (int64_t l = 0; l < l2bs_; l++)
            out.push_back(move(MvOp::Gather, l, entries_ + (chunk_of(step, l) * blocks_ + first) * chunk_ * 2, l2bm,
                               chunk_ * 2 * count / block_words, (1u << groups_) - 1));
        return c_.packer.place(out);
    }

    // Converts a row's number to that of its first granule: multiplies by binary shift and add.
    void granules_before(const Operand &row) {
        const int64_t times = blocks_ * granules;
        if ((times & (times - 1)) == 0) {
            alu(AluOp::Shl, row, both(std::countr_zero(uint64_t(times)), std::countr_zero(uint64_t(times))), row);
            return;
        }
        const Operand total = grf1(int(offsets_ + cycles_per_step), 1),
                      part = grf1(int(offsets_ + 2 * cycles_per_step), 1);
        bool first = true;
        for (int bit = 0; bit < 32; bit++) {
            if (!(times >> bit & 1)) continue;
            alu(AluOp::Shl, row, both(bit, bit), first ? total : part);
            if (!first) {
                MicroOp m; // the first operand comes from the forward
                Alu u;
                u.op = AluOp::Pass;
                u.type = sim::Type::I32;
                u.a = m.read(part);
                m.word().alu = u;
                m.next();
                u.op = AluOp::Add;
                u.a = m.read(aluf());
                u.b = m.read(total);
                u.to = m.write(total);
                m.word().alu = u;
                c_.packer.place(m);
            }
            first = false;
        }
        alu(AluOp::Pass, total, std::nullopt, row);
    }

    void l2_step(L2Op op, int64_t l2bm, int64_t l1bm) {
        MicroOp m;
        L2 l2;
        l2.op = op;
        l2.l2bm.at = uint16_t(l2bm);
        l2.l1bm.at = uint16_t(l1bm);
        m.word().l2 = l2;
        c_.packer.place(m);
    }

    // Moves a step's rows, blocks of 64 LW of some rows at a time.
    void rows(int64_t step) {
        for (int64_t b = 0; b < blocks_; b++) {
            for (int64_t r = 0; r < chunk_; r += rows_) {
                const int64_t l2bm = l2_rows_.next(rows_ * block_words);
                std::vector<Mv> in, out;
                for (int64_t l = 0; l < l2bs_; l++) {
                    const int64_t first = chunk_of(step, l) * chunk_ + r; // in its group
                    // Groups by number of rows.
                    std::map<int64_t, uint32_t> by_count;
                    for (int64_t g = 0; g < groups_; g++) {
                        const int64_t n = std::min(rows_, count_[size_t(g)] - first);
                        if (n > 0) by_count[n] |= 1u << g;
                    }
                    for (const auto &[n, groups] : by_count) {
                        Mv load = move(MvOp::Broadcast, l, table_, l2bm, n, groups);
                        load.indirect = true;
                        load.table =
                            uint32_t(entries_ + chunk_of(step, l) * chunk_ * 2 * blocks_ + b * chunk_ * 2 + r * 2);
                        in.push_back(load);
                        Mv store = move(MvOp::Gather, l, result_ + first * pitch_ + b * block_words, l2bm, 1, groups);
                        store.blocks = uint16_t(n);
                        store.stride = int32_t(pitch_);
                        if (blocks_ == 1 || n == 1) store.blocks = 1, store.size = uint16_t(n), store.stride = 0;
                        out.push_back(store);
                    }
                }
                if (in.empty()) continue;
                c_.packer.place(in, ready_[size_t(step)]);
                c_.packer.place(out);
            }
        }
    }
};

} // namespace

bool is_gather(const StageState &stage) {
    for (const Expr &e : reads_in(stage.def.value)) {
        for (const Expr &i : e.as<ir::Call>()->args) {
            if (!reads_in(i).empty()) return true;
        }
    }
    return false;
}

void lower_gather(Context &c, const ScheduleState &state, const StageState &stage) { Gather(c, state, stage); }

} // namespace kumiko::chip
