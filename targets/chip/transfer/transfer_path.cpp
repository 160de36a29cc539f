#include "targets/chip/transfer/transfer_path.h"

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

namespace {

int64_t face_words(const TransferPathShape &s) { return s.single ? 32 : 64; }
int64_t elements_of_pe(const TransferPathShape &s) { return s.single ? 2 : 4; } // of a vector

// Maps x, in the order in which L1BM holds the segments of MABs, to the number of the MAB's part
// and the offset in its segment. Each MAB has rows of one group's memory, and consecutive MABs use
// different groups; rows of all groups alternate, so that all groups are busy.
std::pair<int64_t, int64_t> in_segment(int64_t x, int64_t segment, int64_t parts, int64_t piece, int64_t groups) {
    if (parts % groups != 0 || segment % piece != 0) return {x / segment, x % segment};
    const int64_t y = x % (groups * segment), n = y / piece;
    return {x / (groups * segment) * groups + n % groups, n / groups * piece + y % piece};
}

} // namespace

TransferPath::TransferPath(const StagePlan &plan, const Config &config, TransferPathShape shape)
    : plan_(plan), config_(config), shape_(std::move(shape)) {
    const TransferPathShape &s = shape_;
    const int bytes = s.type.bytes();
    if (bytes != 2 && bytes != 4)
        throw Unsupported(s.name + " has elements of " + kumiko::type_name(s.type) +
                          "; the chip has types of 16 and 32 bits");
    per_word_ = 8 / bytes;
    const auto &loops = plan.loops();
    for (const size_t k : s.keys) tiles_ *= loops[k].extent;
    find_digits();
    for (const Digit &d : digits_) accesses_ *= d.extent;
    int64_t lanes = 1;
    for (const size_t l : s.lanes) lanes *= loops[l].extent;
    if (s.form == Form::Pe && s.lanes.empty() && !s.store) { // all lanes have the same value
        words_ = int(std::max<int64_t>(1, s.copies / per_word_));
    } else if (s.form == Form::Pe) {
        if (lanes % per_word_ != 0 || lanes / per_word_ > 2)
            throw UserError(
                fmt::format("{}: its vectorized loops have {} iterations, but a long word holds {} elements of {}",
                            s.name, lanes, per_word_, kumiko::type_name(s.type)));
        words_ = int(lanes / per_word_);
    } else if (s.form == Form::Result) {
        words_ = int(elements_of_pe(s)) / per_word_;
    }
    const int64_t pes = config.pes_per_l1b();
    if (s.form == Form::Face) {
        distribution_ = Deal::Face;
        l1_words_ = round_up(accesses_ * face_words(s), chunk_);
        unit_words_ = l1_words_;
    } else {
        const int64_t mabs = plan.parts(s.access, Tier::Mab);
        if (!s.store && mabs == 1)
            distribution_ = s.form == Form::Vector || s.form == Form::Result || plan.parts(s.access, Tier::Pe) > 1
                                ? Deal::Mab
                                : Deal::Pe;
        if (s.store && s.form == Form::Pe && plan.used(Tier::Mab) == 1) distribution_ = Deal::Mab;
        by_mab_ = s.transposed && mabs > 1;
        if (s.transposed) distribution_ = Deal::Mab;
        per_address_ = distribution_ == Deal::Scatter ? pes : distribution_ == Deal::Mab ? pes_per_mab : 1;
        chunk_ = std::lcm<int64_t>(64, cycles_per_step * per_address_);
        const int64_t addresses = round_up(accesses_, s.store ? cycles_per_step : 1) * words_;
        l1_words_ = segment_ = round_up(addresses * per_address_, chunk_);
        // Of a chunk larger than all PEs need, they take only that part.
        unit_words_ =
            s.store || distribution_ != Deal::Pe ? l1_words_ / per_address_ : round_up(addresses, cycles_per_step);
        if (by_mab_) l1_words_ *= mabs;
    }
    // At L2: all L1Bs at once if each has its own part, else one part after the other.
    const int64_t l1_parts = s.store ? plan.used(Tier::L1b) : plan.parts(s.access, Tier::L1b);
    interleaved_ = l1_parts == config.l1bs;
    l2_times_ = l1_parts;
    l1b_of_part_.assign(size_t(l1_parts), -1);
    for (int u = config.l1bs; u-- > 0;) {
        const int64_t part = s.store ? u % l1_parts : plan.part(s.access, Tier::L1b, u);
        l1b_of_part_[size_t(part)] = u;
    }
    // A broadcast may have two sources, one for the lower half of the L1Bs and one for the upper.
    std::vector<int64_t> lower, upper;
    for (int64_t part = 0; part < l1_parts; part++) {
        const uint32_t set = s.store ? 0 : l1bs_of_part(part), low = (1u << config.l1bs / 2) - 1;
        if (set && !(set & ~low) && config.l1bs % 2 == 0)
            lower.push_back(part);
        else if (set && !(set & low) && config.l1bs % 2 == 0)
            upper.push_back(part);
        else
            pairs_.push_back({part, -1});
    }
    while (!lower.empty() || !upper.empty()) {
        std::vector<int64_t> &first = lower.empty() ? upper : lower;
        const bool both = !lower.empty() && !upper.empty();
        pairs_.push_back({first.back(), both ? upper.back() : -1});
        first.pop_back();
        if (both) upper.pop_back();
    }
    // Consecutive tiles come from one group for some time, so that the other groups have long
    // intervals for results.
    run_ = std::max(s.together, 1024 * int64_t(config.moves.dram_rate) / l2_words() / s.together * s.together);
    local_ = s.store || config.groups == 1 || plan.parts(s.access, Tier::Group) == config.groups;
    if (!s.order) return;
    const std::string why = why_not_row_major(*s.order, interleaved_);
    if (why.empty()) return;
    if (!takes_row_major(*s.order)) {
        if (!s.table) throw Unsupported(why);
        unit_ = config.moves.granule;
        for (const bool dealt : {interleaved_, false}) {
            interleaved_ = dealt;
            if (why_not_row_major(*s.order, dealt, unit_).empty()) return;
        }
        throw Unsupported(why);
    }
    // L1Bs one after the other, in whole blocks, several blocks at once: one move for each would
    // exceed the issue rate.
    interleaved_ = false;
    // Neighbours in a row belong to L1Bs and must arrive together.
    if (s.transposed) return;
    const int64_t parts = s.table ? 4 : 8; // other users of L2BM
    for (const int64_t times : {8, 4, 2}) {
        if (l1_words_ % (chunk_ * times) == 0 && l2_chunk() * times * parts <= config_.sizes.l2bm &&
            chunk_ * times * 8 <= config_.sizes.l1bm) {
            chunk_ *= times;
            break;
        }
    }
}

int64_t TransferPath::access_words() const {
    return shape_.form == Form::Face ? face_words(shape_) : words_ * per_address_;
}

int64_t TransferPath::key(const Values &values) const {
    int64_t k = 0;
    for (const size_t l : shape_.keys) k = k * plan_.loops()[l].extent + values[l];
    return k;
}

void TransferPath::find_digits() {
    const auto &loops = plan_.loops();
    shared_.assign(loops.size(), false);
    std::vector<size_t> axis_of(loops.size(), SIZE_MAX);
    for (const size_t l : shape_.digits) {
        Digit made{{l}, {1}, loops[l].extent};
        int axes = 0;
        for (size_t a = 0; a < shape_.access.index.size(); a++) {
            if (shape_.access.index[a].depends(l)) axis_of[l] = a, axes++;
        }
        const auto coefficient = [&](size_t loop) { return shape_.access.index[axis_of[l]].coefficients[loop]; };
        // It overlaps an earlier digit of the same axis if neither steps over the whole range of
        // the other.
        Digit *with = nullptr;
        for (Digit &d : digits_) {
            if (axis_of[d.loops[0]] != axis_of[l]) continue;
            int64_t reach = 0, least = INT64_MAX;
            for (const size_t m : d.loops) {
                reach += std::abs(coefficient(m)) * (loops[m].extent - 1);
                least = std::min(least, std::abs(coefficient(m)));
            }
            const int64_t own = std::abs(coefficient(l));
            if (own > reach || least > own * (loops[l].extent - 1)) continue;
            if (with || axes > 1)
                throw Unsupported(shape_.name + ": the index of axis " + std::to_string(axis_of[l]) +
                                  " sums loops, such as " + loops[l].name +
                                  ", in a way that the chip's addresses do not");
            with = &d;
        }
        if (!with) {
            digits_.push_back(made);
            continue;
        }
        with->loops.push_back(l);
        int64_t common = 0;
        for (const size_t m : with->loops) common = std::gcd(common, coefficient(m));
        with->weights.clear();
        with->extent = 1;
        for (const size_t m : with->loops) {
            if (coefficient(m) < 0)
                throw Unsupported(shape_.name + ": an index runs backwards along loop " + loops[m].name);
            with->weights.push_back(coefficient(m) / common);
            with->extent += coefficient(m) / common * (loops[m].extent - 1);
            shared_[m] = true;
        }
    }
    // For loops that share elements, one combination of values for each digit value; gaps between
    // steps are never read.
    for (Digit &d : digits_) {
        if (d.loops.size() == 1) continue;
        d.ways.assign(size_t(d.extent), std::vector<int64_t>(d.loops.size(), 0));
        std::vector<int64_t> way(d.loops.size(), 0);
        for (bool more = true; more;) {
            int64_t at = 0;
            for (size_t i = 0; i < way.size(); i++) at += way[i] * d.weights[i];
            d.ways[size_t(at)] = way;
            more = false;
            for (size_t i = way.size(); i-- > 0 && !more;) {
                more = ++way[i] < loops[d.loops[i]].extent;
                if (!more) way[i] = 0;
            }
        }
    }
}

int64_t TransferPath::index(const Values &values) const {
    int64_t k = 0;
    for (const Digit &d : digits_) {
        k *= d.extent;
        for (size_t i = 0; i < d.loops.size(); i++) k += d.weights[i] * values[d.loops[i]];
    }
    return k;
}

int64_t TransferPath::access_stride(size_t loop) const {
    int64_t stride = 1;
    for (size_t d = digits_.size(); d-- > 0;) {
        for (size_t i = 0; i < digits_[d].loops.size(); i++) {
            if (digits_[d].loops[i] == loop) return stride * digits_[d].weights[i];
        }
        stride *= digits_[d].extent;
    }
    return 0;
}

uint32_t TransferPath::l1bs_of_part(int64_t part) const {
    uint32_t set = 0;
    for (int u = 0; u < config_.l1bs; u++) {
        if (plan_.part(shape_.access, Tier::L1b, u) == part) set |= 1u << u;
    }
    return set;
}

int64_t TransferPath::slots() const {
    if (shape_.store) return plan_.used(Tier::L2b);
    const int64_t l2 = plan_.parts(shape_.access, Tier::L2b);
    return local_ ? l2 : l2 * plan_.parts(shape_.access, Tier::Group);
}

uint32_t TransferPath::groups_of(int64_t key) const {
    uint32_t set = 0;
    for (const Home &h : homes(key)) set |= 1u << h.group;
    return set;
}

int64_t TransferPath::dram_words() const { return tiles_ * slots() * l2_words(); }

std::vector<TransferPath::Home> TransferPath::homes(int64_t key) const {
    std::vector<Home> all;
    const TensorAccess &t = shape_.access;
    if (shape_.store) {
        for (int g = 0; g < plan_.used(Tier::Group); g++) {
            for (int l = 0; l < plan_.used(Tier::L2b); l++) all.push_back({g, key * slots() + l, g, l});
        }
        return all;
    }
    const auto l2b_with = [&](int64_t part) {
        int l = 0;
        while (plan_.part(t, Tier::L2b, l) != part) l++;
        return l;
    };
    for (int64_t pl = 0; pl < plan_.parts(t, Tier::L2b); pl++) {
        if (local_) {
            for (int g = 0; g < config_.groups; g++) all.push_back({g, key * slots() + pl, g, l2b_with(pl)});
            continue;
        }
        for (int64_t pg = 0; pg < plan_.parts(t, Tier::Group); pg++) {
            std::vector<int> members;
            for (int g = 0; g < config_.groups; g++) {
                if (plan_.part(t, Tier::Group, g) == pg) members.push_back(g);
            }
            const int64_t slot = key * slots() + pl * plan_.parts(t, Tier::Group) + pg;
            const size_t turn = size_t(key / run_ * slots() + slot % slots());
            all.push_back({members[turn % members.size()], slot, members.front(), l2b_with(pl)});
        }
    }
    return all;
}

int64_t TransferPath::l2_offset(int64_t part, int64_t x) const {
    if (interleaved_) return x / 8 * 8 * config_.l1bs + 8 * part + x % 8;
    return x / chunk_ * l2_chunk() + part * chunk_ + x % chunk_;
}

void TransferPath::moves(Packer &p, int64_t key, int64_t x, int64_t n, int64_t dram, int64_t l2bm, int64_t tiles,
                         uint32_t groups) const {
    const int64_t begin = x / chunk_ * l2_chunk(), words = n / chunk_ * l2_chunk();
    if (shape_.order) {
        for (int64_t t = 0; t < tiles; t++) row_moves(p, key + t, begin, words, dram, l2bm + t * l2_words(), groups);
        return;
    }
    std::vector<Mv> all;
    Mv base;
    base.op = shape_.store ? MvOp::Gather : MvOp::Broadcast;
    base.size = uint16_t(words / config_.moves.block);
    base.l2bm = uint16_t(l2bm);
    base.blocks = uint16_t(tiles);
    base.stride = tiles > 1 ? int32_t(slots() * l2_words()) : 0;
    const std::vector<Home> homes = this->homes(key);
    if (shape_.store) { // each group separately, when its memory is free
        for (const Home &h : homes) {
            if (!(groups >> h.g & 1)) continue;
            Mv m = base;
            m.groups = uint16_t(1u << h.g);
            m.l2bs = 1u << (h.g * config_.l2bs + h.l);
            m.address = uint32_t(dram + h.slot * l2_words() + begin);
            all.push_back(m);
        }
    } else if (local_) { // the same in each group
        for (const Home &h : homes) {
            if (h.g != 0) continue;
            Mv m = base;
            m.groups = uint16_t((1u << config_.groups) - 1);
            m.l2bs = 0;
            for (int g = 0; g < config_.groups; g++) {
                for (int l = 0; l < config_.l2bs; l++) {
                    if (plan_.part(shape_.access, Tier::L2b, l) == plan_.part(shape_.access, Tier::L2b, h.l))
                        m.l2bs |= 1u << (g * config_.l2bs + l);
                }
            }
            m.address = uint32_t(dram + h.slot * l2_words() + begin);
            all.push_back(m);
        }
    } else {
        for (const Home &h : homes) {
            Mv m = base;
            m.chip = true;
            m.groups = uint16_t(1u << h.group);
            m.l2bs = 0;
            for (int g = 0; g < config_.groups; g++) {
                for (int l = 0; l < config_.l2bs; l++) {
                    if (plan_.part(shape_.access, Tier::Group, g) == plan_.part(shape_.access, Tier::Group, h.g) &&
                        plan_.part(shape_.access, Tier::L2b, l) == plan_.part(shape_.access, Tier::L2b, h.l))
                        m.l2bs |= 1u << (g * config_.l2bs + l);
                }
            }
            m.address = uint32_t(dram + h.slot * l2_words() + begin);
            all.push_back(m);
        }
    }
    p.place(all);
}

void TransferPath::l2(Packer &p, int64_t n, int64_t l2bm, int64_t l1bm) const {
    const bool up = shape_.store;
    const auto one = [&](L2 slot, int64_t from, int64_t at, int64_t l2_count, int64_t l1_count, int64_t second = -1) {
        Micro m;
        if (second >= 0) m.touch_range(Space::L2bm, second, l2_count, up, true);
        m.use(Unit::L2);
        slot.l2bm.at = uint16_t(from);
        slot.l1bm.at = uint16_t(at);
        m.word().l2 = slot;
        m.touch_range(Space::L2bm, from, l2_count, up, true);
        m.touch_range(Space::L1bm, at, l1_count, !up, true);
        p.place(m);
    };
    if (interleaved_) {
        const int64_t per_step = int64_t(config_.links.l2_scatter) * cycles_per_step;
        for (int64_t x = 0; x < n; x += per_step) {
            L2 s;
            s.op = up ? L2Op::Gather : L2Op::Scatter;
            one(s, l2bm + x * config_.l1bs, l1bm + x, per_step * config_.l1bs, per_step);
        }
        return;
    }
    const int64_t per_step = int64_t(config_.links.l2_broadcast) * cycles_per_step;
    for (int64_t c = 0; c < n; c += chunk_) {
        const auto from = [&](int64_t part) { return l2bm + c * l2_times_ + part * chunk_; };
        for (const auto &[part, other] : pairs_) {
            for (int64_t x = 0; x < chunk_; x += per_step) {
                L2 s;
                if (up) {
                    s.op = L2Op::UnicastUp;
                    s.child = uint8_t(l1b_of_part_[size_t(part)]);
                } else {
                    s.op = L2Op::Broadcast;
                    uint32_t set = l1bs_of_part(part);
                    if (other >= 0) {
                        s.op = L2Op::Broadcast2;
                        s.second.at = uint16_t(from(other) + x);
                        set |= l1bs_of_part(other);
                    }
                    if (set != (1u << config_.l1bs) - 1) s.l1bs = set;
                }
                one(s, from(part) + x, l1bm + c + x, per_step, per_step, other >= 0 ? from(other) + x : -1);
            }
        }
    }
}

uint32_t TransferPath::mabs_of_part(int64_t part) const {
    uint32_t set = 0;
    for (int u = 0; u < config_.mabs; u++) {
        if (plan_.part(shape_.access, Tier::Mab, u) == part) set |= 1u << u;
    }
    return set;
}

void TransferPath::l1_down(Packer &p, int64_t x, int64_t n, int64_t l1bm, int64_t at) const {
    const int64_t per_step = per_address_ * cycles_per_step;
    for (int64_t i = 0; i < n; i += per_step) {
        std::pair<int64_t, int64_t> at_mab{0, x + i};
        if (by_mab_)
            at_mab = in_segment(x + i, segment_, l1_words_ / segment_, 16 * shape_.transposed / (4 * per_word_),
                                config_.groups);
        const int64_t offset = at_mab.second / per_address_;
        if (offset >= unit_words_) break;
        Micro m;
        m.use(Unit::L1);
        L1 &l1 = m.word().l1;
        l1.op = distribution_ == Deal::Scatter ? L1Op::Scatter
                : distribution_ == Deal::Mab   ? L1Op::MabBroadcast
                                               : L1Op::PeBroadcast;
        if (by_mab_) l1.mabs = mabs_of_part(at_mab.first);
        l1.at.at = uint16_t(l1bm + i);
        m.touch_range(Space::L1bm, l1bm + i, per_step, false);
        const bool second = at + offset >= config_.sizes.lm;
        const int address = int(second ? at + offset - config_.sizes.lm : at + offset);
        m.word().l1.to = m.write(second ? lm1(address, 1) : lm0(address, 1), 1);
        p.place(m);
    }
}

// Words are written as rows of a face and columns are read to their destination; one face is
// written while the other is read.
void TransferPath::transpose(Packer &p, int64_t from, int64_t to) const {
    const int size = pes_per_mab * per_word_;
    const sim::Type precision = per_word_ == 4 ? sim::Type::F16 : sim::Type::F32;
    const int64_t faces = shape_.transposed / size;
    const auto operand = [&](int64_t at, int64_t stride) {
        return at >= config_.sizes.lm ? lm1(int(at - config_.sizes.lm), int(stride)) : lm0(int(at), int(stride));
    };
    for (int64_t n = 0; n < accesses_ / size; n++) {
        const int64_t run = n / faces * shape_.transposed;
        for (int part = 0; part < size / cycles_per_step; part++) {
            Micro m;
            m.use(Unit::Mw).use(precision == sim::Type::F16 ? Unit::F16 : Unit::F32);
            MatrixWrite &mw = m.word().mw;
            mw.on = true;
            mw.precision = precision;
            mw.face = uint8_t(n % 2);
            mw.part = uint8_t(part);
            mw.width = 1;
            mw.from = m.read(operand(from + run + n % faces + part * cycles_per_step * faces, faces), 1);
            m.touch(Space::Face, int(n % 2), true);
            p.place(m);
        }
        for (int part = 0; part < size / (2 * cycles_per_step); part++) {
            Micro m;
            m.use(Unit::Mr);
            MatrixRead &mr = m.word().mr;
            mr.on = true;
            mr.precision = precision;
            mr.face = uint8_t(n % 2);
            mr.part = uint8_t(part);
            mr.width = 2;
            mr.to = m.write(operand(to + n * size + part * 2 * cycles_per_step, 2), 2);
            m.touch(Space::Face, int(n % 2), false);
            p.place(m);
        }
    }
}

void TransferPath::each_word(const WordVisitor &f) const {
    const auto &loops = plan_.loops();
    const TransferPathShape &s = shape_;
    std::vector<int64_t> axis_stride(s.access.extents.size(), 1);
    for (size_t d = axis_stride.size(); d-- > 1;) axis_stride[d - 1] = axis_stride[d] * s.access.extents[d];
    std::vector<int64_t> elements(static_cast<size_t>(per_word_));
    Values values(loops.size(), 0);
    for (int64_t k = 0; k < tiles_; k++) {
        set_key(values, k);
        for (const Home &h : homes(k)) {
            plan_.set_unit(values, Tier::Group, h.g);
            plan_.set_unit(values, Tier::L2b, h.l);
            for (int64_t part = 0; part < l2_times_; part++) {
                for (int64_t x = 0; x < l1_words_; x++) {
                    const auto [access, w] = set_word(values, part, x);
                    for (int e = 0; e < per_word_; e++) {
                        if (e > 0 && s.transposed)
                            set_word(values, part, x, e);
                        else if (e > 0)
                            set_lane(values, w, e);
                        int64_t &offset = elements[size_t(e)] =
                            access < accesses_ && plan_.inside(values, shared_) ? 0 : -1;
                        for (size_t d = 0; d < axis_stride.size() && offset >= 0; d++) {
                            int64_t at = s.access.index[d].at(values);
                            if (s.access.period) at %= s.access.period;
                            if (s.clamped) at = std::clamp<int64_t>(at, 0, s.access.extents[d] - 1);
                            offset = at < 0 || at >= s.access.extents[d] ? -1 : offset + at * axis_stride[d];
                        }
                    }
                    f(h.group, h.slot * l2_words() + l2_offset(part, x), elements);
                }
            }
        }
    }
}

void TransferPath::set_key(Values &values, int64_t key) const {
    for (size_t i = shape_.keys.size(); i-- > 0;) {
        values[shape_.keys[i]] = key % plan_.loops()[shape_.keys[i]].extent;
        key /= plan_.loops()[shape_.keys[i]].extent;
    }
}

// Element e of word w of an access, in the PE that the values name.
void TransferPath::set_lane(Values &values, int64_t w, int64_t e) const {
    const TransferPathShape &s = shape_;
    if (s.form != Form::Pe) {
        // The PE's elements, or two of four.
        const size_t loop = s.form == Form::Result ? s.row : s.column;
        const int64_t n = elements_of_pe(s);
        values[loop] = values[loop] / n * n + (s.form == Form::Result ? w * per_word_ : 0) + e;
        return;
    }
    int64_t lane = w * per_word_ + e;
    for (size_t i = s.lanes.size(); i-- > 0;) {
        values[s.lanes[i]] = lane % plan_.loops()[s.lanes[i]].extent;
        lane /= plan_.loops()[s.lanes[i]].extent;
    }
}

// Sets the loops for element e of a word.
std::pair<int64_t, int64_t> TransferPath::set_word(Values &values, int64_t part, int64_t x, int64_t e) const {
    const TransferPathShape &s = shape_;
    plan_.set_unit(values, Tier::L1b, l1b_of_part_[size_t(part)]);
    int64_t access, w = 0, p = 0, m = 0, row = 0, lane = e;
    if (s.form == Form::Face) {
        const int64_t y = x % face_words(s);
        access = x / face_words(s);
        row = 8 * (y / 32) + 2 * (y % 32 / 8) + y % 2;
        p = y % 8 / 2;
    } else {
        std::pair<int64_t, int64_t> at_mab{0, x};
        if (by_mab_)
            at_mab = in_segment(x, segment_, l1_words_ / segment_, 16 * s.transposed / (4 * per_word_), config_.groups);
        const int64_t a = at_mab.second / per_address_, i = x % per_address_;
        m = by_mab_ ? std::countr_zero(mabs_of_part(at_mab.first)) : i / pes_per_mab;
        p = i % pes_per_mab;
        access = s.store ? a / (cycles_per_step * words_) * cycles_per_step + a % cycles_per_step : a / words_;
        w = s.store ? a % (cycles_per_step * words_) / cycles_per_step : a % words_;
    }
    if (s.transposed) { // a row of adjacent faces; each word has four columns of one row
        const int64_t faces = s.transposed / (pes_per_mab * per_word_), q = access % s.transposed, r = q / faces;
        access += (q % faces * pes_per_mab + p) * per_word_ + e - q;
        p = r / per_word_;
        lane = r % per_word_;
    }
    plan_.set_unit(values, Tier::Mab, int(m));
    plan_.set_unit(values, Tier::Pe, int(p));
    set_digits(values, access);
    if (s.form == Form::Face) values[s.row] = row;
    if (s.form == Form::Result) values[s.row] = elements_of_pe(s) * p;
    if (s.form == Form::Face || s.form == Form::Vector) values[s.column] = elements_of_pe(s) * p;
    set_lane(values, w, lane);
    return {access, w};
}

void TransferPath::set_digits(Values &values, int64_t access) const {
    int64_t digit = access;
    for (size_t d = digits_.size(); d-- > 0;) {
        const int64_t at = digit % digits_[d].extent;
        digit /= digits_[d].extent;
        if (digits_[d].loops.size() == 1) {
            values[digits_[d].loops[0]] = at;
            continue;
        }
        const std::vector<int64_t> &way = digits_[d].ways[size_t(at)];
        for (size_t i = 0; i < way.size(); i++) values[digits_[d].loops[i]] = way[i];
    }
}

std::string TransferPath::to_string() const {
    const auto &loops = plan_.loops();
    std::string text;
    const auto add = [&](int64_t n, const std::string &what) {
        text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", n, what);
    };
    for (const size_t k : shape_.keys) add(loops[k].extent, loops[k].name);
    if (slots() > 1) add(slots(), local_ ? "L2B" : "group and L2B");
    for (const Digit &d : digits_) {
        std::string names;
        for (const size_t l : d.loops) names += (names.empty() ? "" : "+") + loops[l].name;
        add(d.extent, names);
    }
    if (l2_times_ > 1) add(l2_times_, interleaved_ ? "L1B (dealt by 8 LW)" : "L1B");
    if (distribution_ == Deal::Face)
        add(face_words(shape_), "matrix");
    else if (distribution_ == Deal::Scatter)
        add(config_.mabs, "MAB"), add(pes_per_mab, "PE");
    else if (distribution_ == Deal::Mab)
        add(pes_per_mab, "PE");
    if (words_ > 1) add(words_, "word");
    add(per_word_, "lane");
    return "(" + text + ")" + (local_ && config_.groups > 1 ? " in each group" : "");
}

} // namespace kumiko::chip
