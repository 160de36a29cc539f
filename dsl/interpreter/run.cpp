// The loops around a program.
#include "dsl/buffers.h"
#include "dsl/interpreter/bounds.h"
#include "dsl/interpreter/machine.h"
#include "dsl/interpreter/scatter.h"
#include "dsl/recurrence.h"
#include "support/error.h"

#include <cmath>

namespace kumiko::interpreter {

namespace {

class Runner {
public:
    Runner(const Context &context, const Stage &stage, const Program &program, const std::vector<int> &targets,
           bool bounds)
        : context_(context), stage_(stage), p_(program), targets_(targets), m_(context, program, bounds),
          bounds_(bounds) {
        for (int target : targets) {
            std::vector<int64_t> by_level(p_.loops.size() + 1, 0);
            for (size_t d = 0; d < stage.axes.size(); d++) {
                for (size_t l = 0; l < p_.loops.size(); l++) {
                    if (p_.loops[l].name == stage.axes[d].name()) by_level[l + 1] = context.arrays[target].strides[d];
                }
            }
            strides_.push_back(by_level);
        }
        const std::string named = scatter_axis(stage);
        for (size_t l = 0; l < p_.loops.size() && !named.empty(); l++) {
            if (p_.loops[l].name == named) scatter_level_ = static_cast<int>(l) + 1;
        }
        const std::string &kind = stage.is_reduction() && stage.type.is_float() ? stage.reduction_kind : "";
        sum_bounds_ = bounds && kind == "sum";
        product_bounds_ = bounds && kind == "product";
    }

    void run() {
        const int pure = p_.first_reduction_level - 1;
        for (int l = 1; l <= static_cast<int>(p_.loops.size()); l++) {
            if (p_.loops[l - 1].extent > 0) continue;
            if (l <= pure) return; // the stage has no elements
            empty_ = true;         // every element is the identity
        }
        if (scatter_level_ && !empty_) {
            std::vector<int64_t> extents;
            for (size_t l = p_.first_reduction_level - 1; l < p_.loops.size(); l++)
                extents.push_back(p_.loops[l].extent);
            const Loop &named = p_.loops[scatter_level_ - 1];
            steps_ = steps_by_index(context_, stage_, named.begin + named.extent, extents);
        }
        m_.execute(p_.code[0]);
        outer(1);
    }

private:
    const Context &context_;
    const Stage &stage_;
    const Program &p_;
    const std::vector<int> &targets_;
    Machine m_;
    bool bounds_, sum_bounds_ = false, product_bounds_ = false, empty_ = false;
    int scatter_level_ = 0; // of a scatter: the loop over the elements that steps select
    Steps steps_;
    std::vector<std::vector<int64_t>> strides_; // by component and level
    std::vector<double> term_errors_, term_sizes_;
    double n_terms_ = 0;

    template<typename F>
    void iterate(int level, F body) {
        const Loop &loop = p_.loops[level - 1];
        const int64_t end = loop.begin + loop.extent, step = level == p_.row_level ? row_lanes : 1;
        for (int64_t v = loop.begin; v < end; v += step) {
            m_.value[level] = v;
            if (level == p_.row_level) m_.lanes = std::min(row_lanes, end - v);
            if (!empty_) m_.execute(p_.code[level]);
            body();
        }
    }

    void outer(int level) {
        if (level < p_.first_reduction_level) return iterate(level, [&] { outer(level + 1); });
        if (!stage_.is_reduction()) return store(p_.results);
        for (size_t c = 0; c < p_.accumulators.size(); c++) m_.copy(p_.accumulators[c], p_.identities[c]);
        if (sum_bounds_ || product_bounds_) {
            term_errors_.assign(row_lanes, 0);
            term_sizes_.assign(row_lanes, sum_bounds_ ? 0 : 1);
            n_terms_ = 0;
        }
        if (!empty_) scatter_level_ ? visit(level) : inner(level);
        if (sum_bounds_ || product_bounds_) bound_any_order();
        store(p_.accumulators);
    }

    // Runs the steps that select the element.
    void visit(int level) {
        const int last = static_cast<int>(p_.loops.size());
        for (int64_t step : steps_[static_cast<size_t>(m_.value[scatter_level_])]) {
            for (int l = last; l >= level; l--) {
                m_.value[l] = step % p_.loops[l - 1].extent;
                step /= p_.loops[l - 1].extent;
            }
            for (int l = level; l <= last; l++) m_.execute(p_.code[l]);
            inner(last + 1);
        }
    }

    void inner(int level) {
        if (level <= static_cast<int>(p_.loops.size())) return iterate(level, [&] { inner(level + 1); });
        if (sum_bounds_ || product_bounds_) note_terms();
        if (p_.fold_lanes) fold();
    }

    void store(const std::vector<int> &registers) {
        for (size_t c = 0; c < registers.size(); c++) {
            int64_t offset = -context_.arrays[targets_[c]].origin;
            for (int l = 1; l < p_.first_reduction_level; l++) offset += m_.value[l] * strides_[c][l];
            const bool rows = p_.row_level > 0 && !p_.fold_lanes;
            m_.store(context_.arrays[targets_[c]], offset, rows ? strides_[c][p_.row_level] : 0, registers[c],
                     rows ? m_.lanes : 1);
        }
    }

    // Folds the lanes of the terms into the accumulators, in order.
    void fold() {
        const Domain domain = context_.domain(stage_.type);
        if (p_.fold_code >= 0 && domain != Domain::Int && !bounds_) {
            domain == Domain::Float ? fold_simple(m_.floats(p_.accumulators[0]), m_.floats(p_.terms[0]))
                                    : fold_simple(m_.doubles(p_.accumulators[0]), m_.doubles(p_.terms[0]));
            return;
        }
        for (int64_t l = 0; l < m_.lanes; l++) {
            for (size_t c = 0; c < p_.terms.size(); c++) m_.copy_lane(p_.fold_terms[c], p_.terms[c], l);
            m_.execute(p_.code[p_.loops.size() + 1]);
        }
    }

    template<typename T>
    void fold_simple(T *accumulator, const T *terms) {
        const int64_t step = m_.row(p_.terms[0]) ? 1 : 0;
        T acc = *accumulator;
        const auto over = [&](auto f) {
            for (int64_t l = 0; l < m_.lanes; l++) {
                acc = f(acc, terms[l * step]);
                if constexpr (std::is_same_v<T, float>) acc = rounded(acc, stage_.type);
            }
        };
        switch (static_cast<Code>(p_.fold_code)) {
        case Code::Add:
            over([](T a, T t) { return a + t; });
            break;
        case Code::Mul:
            over([](T a, T t) { return a * t; });
            break;
        case Code::Min:
            over([](T a, T t) { return t < a ? t : a; });
            break;
        default:
            over([](T a, T t) { return t > a ? t : a; });
            break;
        }
        *accumulator = acc;
    }

    // Tracks an upper bound of all partial results: Σ|term| for a sum, Π max(1, |term|) for a
    // product.
    void note_terms() {
        const int term = p_.terms[0];
        for (int64_t l = 0; l < m_.lanes; l++) {
            const size_t at = p_.fold_lanes ? 0 : static_cast<size_t>(l);
            const double e = m_.bound(term)[m_.row(term) ? l : 0], size = std::abs(m_.lane(term, l)) + e;
            term_errors_[at] += e;
            if (sum_bounds_)
                term_sizes_[at] += size;
            else if (!(size <= 1)) // also for NaN
                term_sizes_[at] *= size;
            if (p_.fold_lanes) n_terms_++;
        }
        if (!p_.fold_lanes) n_terms_++;
    }

    // A sum in any order has an error of at most its terms' errors plus n·u·Σ|term| (Higham, ch.
    // 4). A product's roundings are relative in any order, but a partial result that underflows is
    // multiplied by the remaining terms. If a partial result can overflow, the order decides
    // whether the result is finite.
    void bound_any_order() {
        const Type type = stage_.type;
        const int64_t n = p_.fold_lanes ? 1 : m_.lanes;
        for (int64_t l = 0; l < n; l++) {
            double &bound = m_.bound(p_.accumulators[0])[l];
            const double size = term_sizes_[l];
            if (sum_bounds_)
                bound = term_errors_[l] + n_terms_ * (unit_roundoff(type) * size * 1.01 + smallest(type));
            else
                bound += n_terms_ * smallest(type) * size;
            if (!(size + bound <= largest(type))) bound = std::numeric_limits<double>::infinity();
        }
    }
};

} // namespace

void run(const Context &context, const Stage &stage, const Program &program, const std::vector<int> &targets,
         bool bounds) {
    Runner(context, stage, program, targets, bounds).run();
}

void run_group(const Context &context, const std::vector<const Stage *> &stages,
               const std::map<std::string, std::vector<int>> &targets, bool bounds) {
    const std::string &axis = stages.back()->step_axis;
    const auto run_stage = [&](const Stage &s, std::optional<int64_t> step) {
        const std::vector<int> &own = targets.at(s.name);
        std::vector<int64_t> extents, begins;
        for (size_t d = 0; d < s.axes.size(); d++) {
            const Range held = context.arrays[static_cast<size_t>(own[0])].held(d);
            const bool at_step = step && s.axes[d].name() == axis;
            extents.push_back(at_step ? 1 : held.end - held.begin);
            begins.push_back(at_step ? *step : held.begin);
        }
        run(context, s, compile(context, s, extents, evaluate_extents(s.reduction_axes, context.sizes), begins), own,
            bounds);
    };
    if (axis.empty()) return run_stage(*stages.back(), std::nullopt);
    const int64_t steps = evaluate_size(find_axis(*stages.back(), axis)->extent(), context.sizes);
    for (int64_t step = 0; step < steps; step++) {
        for (const Stage *s : stages) run_stage(*s, step);
    }
}

void share_earlier(Context &context) {
    for (const Input &in : context.op->earlier()) {
        const auto made = context.array_of.find(earlier_of(in.name));
        if (made == context.array_of.end()) continue; // no part of it is evaluated
        Array array = context.arrays[static_cast<size_t>(made->second)];
        array.name = in.name;
        context.array_of[in.name] = static_cast<int>(context.arrays.size());
        context.arrays.push_back(std::move(array));
    }
}

} // namespace kumiko::interpreter
