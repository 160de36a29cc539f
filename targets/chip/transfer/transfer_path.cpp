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

TransferPath::TransferPath(const StagePlan &plan, const Config &config, TransferPathShape shape)
    : plan_(plan), config_(config), shape_(std::move(shape)) {
    const TransferPathShape &s = shape_;
    const int bytes = s.type.bytes();
    if (bytes != 2 && bytes != 4)
        throw Unsupported(s.name + " has elements of " + kumiko::type_name(s.type) +
                          "; the chip has types of 16 and 32 bits");
    per_word_ = 8 / bytes;
    for (const size_t k : s.keys) tiles_ *= plan.loops()[k].extent;
    find_digits();
    for (const Digit &d : digits_) accesses_ *= d.extent;
    set_words();
    arrange_l1();
    arrange_l2();
    // Consecutive tiles come from one group for some time, so that the other groups have long
    // intervals for results.
    run_ = std::max(s.together, 1024 * int64_t(config.moves.dram_rate) / l2_words() / s.together * s.together);
    local_ = s.store || config.groups == 1 || plan.parts(s.access, Tier::Group) == config.groups;
    if (s.order) arrange_rows();
}

// The number of words of an access in a unit.
void TransferPath::set_words() {
    const TransferPathShape &s = shape_;
    int64_t lanes = 1;
    for (const size_t l : s.lanes) lanes *= plan_.loops()[l].extent;
    if (s.form == Form::Pe && s.lanes.empty() && !s.store) { // all lanes have the same value
        words_ = int(std::max<int64_t>(1, s.copies / per_word_));
    } else if (s.form == Form::Pe) {
        if (lanes % per_word_ != 0 || lanes / per_word_ > 2)
            throw UserError(
                fmt::format("{}: its vectorized loops have {} iterations, but a long word holds {} elements of {}",
                            s.name, lanes, per_word_, kumiko::type_name(s.type)));
        words_ = int(lanes / per_word_);
    } else if (s.form == Form::Result) {
        words_ = int(s.elements_of_pe()) / per_word_;
    }
}

// How L1 distributes the words of L1BM over MABs and PEs, and how many there are.
void TransferPath::arrange_l1() {
    const TransferPathShape &s = shape_;
    const StagePlan &plan = plan_;
    const int64_t pes = config_.pes_per_l1b();
    if (s.form == Form::Face) {
        distribution_ = Distribution::Face;
        l1_words_ = round_up(accesses_ * s.face_words(), chunk_);
        unit_words_ = l1_words_;
    } else {
        const int64_t mabs = plan.parts(s.access, Tier::Mab);
        if (!s.store && mabs == 1)
            distribution_ = s.form == Form::Vector || s.form == Form::Result || plan.parts(s.access, Tier::Pe) > 1
                                ? Distribution::Mab
                                : Distribution::Pe;
        if (s.store && s.form == Form::Pe && plan.used(Tier::Mab) == 1) distribution_ = Distribution::Mab;
        by_mab_ = s.transposed && mabs > 1;
        if (s.transposed) distribution_ = Distribution::Mab;
        per_address_ = distribution_ == Distribution::Scatter ? pes
                       : distribution_ == Distribution::Mab   ? pes_per_mab
                                                              : 1;
        chunk_ = std::lcm<int64_t>(64, cycles_per_step * per_address_);
        const int64_t addresses = round_up(accesses_, s.store ? cycles_per_step : 1) * words_;
        l1_words_ = segment_ = round_up(addresses * per_address_, chunk_);
        // Of a chunk larger than all PEs need, they take only that part.
        unit_words_ = s.store || distribution_ != Distribution::Pe ? l1_words_ / per_address_
                                                                   : round_up(addresses, cycles_per_step);
        if (by_mab_) l1_words_ *= mabs;
    }
}

// At L2: all L1Bs at once if each has its own part, else one part after the other.
void TransferPath::arrange_l2() {
    const TransferPathShape &s = shape_;
    const StagePlan &plan = plan_;
    const Config &config = config_;
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
}

// Finds moves for a row-major tensor: of whole blocks, or of granules if there is a table for them.
void TransferPath::arrange_rows() {
    const TransferPathShape &s = shape_;
    const std::string why = why_not_row_major(*s.order, interleaved_);
    if (why.empty()) return;
    if (!takes_row_major(*s.order)) {
        if (!s.table) throw Unsupported(why);
        unit_ = config_.moves.granule;
        for (const bool interleaved : {interleaved_, false}) {
            interleaved_ = interleaved;
            if (why_not_row_major(*s.order, interleaved, unit_).empty()) return;
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

std::pair<int64_t, int64_t> TransferPath::in_segment(int64_t x, int64_t segment, int64_t parts, int64_t piece,
                                                     int64_t groups) {
    if (parts % groups != 0 || segment % piece != 0) return {x / segment, x % segment};
    const int64_t y = x % (groups * segment), n = y / piece;
    return {x / (groups * segment) * groups + n % groups, n / groups * piece + y % piece};
}

int64_t TransferPath::access_words() const {
    return shape_.form == Form::Face ? shape_.face_words() : words_ * per_address_;
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
    if (l2_times_ > 1) add(l2_times_, interleaved_ ? "L1B (distributed by 8 LW)" : "L1B");
    if (distribution_ == Distribution::Face)
        add(shape_.face_words(), "matrix");
    else if (distribution_ == Distribution::Scatter)
        add(config_.mabs, "MAB"), add(pes_per_mab, "PE");
    else if (distribution_ == Distribution::Mab)
        add(pes_per_mab, "PE");
    if (words_ > 1) add(words_, "word");
    add(per_word_, "lane");
    return "(" + text + ")" + (local_ && config_.groups > 1 ? " in each group" : "");
}

} // namespace kumiko::chip
