// A space of schedules for one op on one machine, as an interface that a search explores.
//
// A space is a finite product of parameters. A point holds, for each parameter, the index of its
// value among the legal ones. Points are meaningful only in their own space; databases store
// to_json(point), which holds the values.
#pragma once

#include "dsl/op.h"
#include "machine/machine.h"
#include "schedules/library/packed_by.h"
#include "schedules/library/parameters.h"
#include "schedules/schedule.h"

#include <functional>
#include <memory>
#include <optional>

namespace kumiko {

using Point = std::vector<uint32_t>;

// Name and legal values of one parameter of a space.
struct ParameterInfo {
    std::string name;
    std::vector<Json> values;
    bool ordered; // neighbouring values behave alike
};

// A point with which the default point was compared.
struct ComparedPoint {
    std::string change; // from the best point up to then: "s.loops = sketch"
    // Cost estimate relative to that point's: below 1 is faster. 0: it cannot be computed.
    double relative_time = 0;
    // Score of the cost model minus that point's: above 0 is faster. Nothing if measured times
    // decided.
    std::optional<double> score;
    bool chosen = false; // as the best point
};

// A product of parameters whose points are schedules of one op on one machine.
class Space {
public:
    virtual ~Space() = default;

    const Op &op() const { return op_; }
    const Machine &machine() const { return machine_; }
    const std::vector<ParameterInfo> &parameters() const { return parameters_; }
    // The number of points in the product, legal or not; saturates at 2^63 - 1.
    int64_t size() const;

    virtual Point default_point() const = 0;
    // Further points that a search tries first, after the default.
    virtual std::vector<Point> starts() const { return {}; }
    // Whether another value of the parameter may give another schedule; false if the point's other
    // values make it irrelevant.
    virtual bool matters(const Point &, size_t /*parameter*/) const { return true; }
    // Why a point need not be scheduled, in a few words that are equal for equal causes; empty: no
    // reason is known.
    virtual std::string reason_against(const Point &) const { return ""; }
    // An estimate of the cost, in any unit that is the same for all points; 0: no estimate.
    virtual double estimate(const Point &) const { return 0; }
    // Throws UserError or Unsupported if the point is not legal here.
    virtual Schedule schedule(const Point &point) const = 0;

    // Draws uniformly from the points without a reason against them; the default point after 1000
    // failed draws.
    Point sample(Random &random) const;
    // All points one step away that have no reason against them, in a fixed order: for an ordered
    // parameter the next values, for others every other value. Parameters that do not matter keep
    // their values.
    std::vector<Point> neighbours(const Point &point) const;

    Json to_json(const Point &point) const;
    // Throws UserError for unknown or missing names and values that are not legal here.
    Point from_json(const Json &json) const;
    // The default point with the given values replaced. Throws as from_json.
    Point default_with(const Json &given) const;
    std::string text(const Point &point) const; // "rows=6,columns=16"
    // The parameters in which two points differ, with the second's values: "rows = 6, unroll = 2".
    std::string difference(const Point &from, const Point &to) const;

    // Alternatives that were compared before the default point was chosen, in that order.
    virtual std::vector<ComparedPoint> compared() const { return {}; }

protected:
    Space(Op op, Machine machine) : op_(std::move(op)), machine_(std::move(machine)) {}
    void set_parameters(std::vector<ParameterInfo> parameters) { parameters_ = std::move(parameters); }

private:
    Op op_;
    Machine machine_;
    std::vector<ParameterInfo> parameters_;
};

// The space of a parameter struct.
template<typename P>
class StructSpace : public Space {
public:
    using Make = std::function<Schedule(const Op &, const Machine &, const P &)>;
    using Against = std::function<std::string(const Op &, const Machine &, const P &)>;
    using Estimate = std::function<double(const Op &, const Machine &, const P &)>;

    // `defaults` holds the legal values and the initial point. Throws Unsupported if the caller
    // asked for pre-packed weights and no operand can be pre-packed.
    StructSpace(Op op, Machine machine, P defaults, Make make, Against against = nullptr, Estimate estimate = nullptr,
                PackedBy packed_by = PackedBy::Kernel)
        : Space(std::move(op), std::move(machine)), defaults_(std::move(defaults)), make_(std::move(make)),
          against_(std::move(against)), estimate_(std::move(estimate)), packed_by_(packed_by) {
        if (packed_by == PackedBy::Caller && !keep_only(ahead))
            throw Unsupported("no schedule of the library packs an operand of op \"" + this->op().name() +
                              "\" ahead of time on " + this->machine().name +
                              "; those of matrix products and of convolutions do");
        std::vector<ParameterInfo> infos;
        for_each_parameter(defaults_, [&](const std::string &name, const auto &p) {
            ParameterInfo info{name, {}, std::decay_t<decltype(p)>::ordered};
            for (const auto &value : p.legal()) info.values.push_back(value);
            infos.push_back(std::move(info));
        });
        set_parameters(std::move(infos));
    }

    P at(const Point &point) const {
        P parameters = defaults_;
        size_t i = 0;
        for_each_parameter(parameters, [&](const std::string &, auto &p) { p.set_index(point.at(i++)); });
        return parameters;
    }
    Point default_point() const override {
        Point point;
        for_each_parameter(defaults_, [&](const std::string &, const auto &p) { point.push_back(p.index()); });
        return point;
    }
    std::string reason_against(const Point &point) const override {
        const P parameters = at(point);
        if (packed_by_ == PackedBy::Kernel && has(parameters, ahead))
            return "pre-packed weights change the arguments of the kernel, so the caller decides";
        return against_ ? against_(op(), machine(), parameters) : "";
    }
    double estimate(const Point &point) const override { return estimate_ ? estimate_(op(), machine(), at(point)) : 0; }
    Schedule schedule(const Point &point) const override { return make_(op(), machine(), at(point)); }

private:
    static constexpr const char *ahead = "ahead";

    static bool has(const P &parameters, const std::string &name) {
        bool any = false;
        for_each_parameter(parameters, [&](const std::string &, const auto &p) {
            if constexpr (std::is_same_v<std::decay_t<decltype(p)>, Choice>) any = any || p.is(name);
        });
        return any;
    }
    // Restricts each parameter that may have this value to it; returns whether there is one.
    bool keep_only(const char *name) {
        bool any = false;
        for_each_parameter(defaults_, [&](const std::string &, auto &p) {
            if constexpr (std::is_same_v<std::decay_t<decltype(p)>, Choice>) {
                if (std::count(p.legal().begin(), p.legal().end(), name)) p = Choice(name, {name}), any = true;
            }
        });
        return any;
    }

    P defaults_;
    Make make_;
    Against against_;
    Estimate estimate_;
    PackedBy packed_by_;
};

// One entry of the library: the ops that it matches, and its space for one of them.
struct LibraryTemplate {
    std::string name;
    std::string summary;
    std::function<bool(const Op &)> matches;
    std::function<std::unique_ptr<Space>(const Op &, const Machine &, PackedBy)> make;
    // matches if the caller packs; null: no op
    std::function<bool(const Op &)> packs_ahead = nullptr;

    // Requires matches(op), or packs_ahead(op) if the caller packs. Throws Unsupported if the
    // caller asked for pre-packed weights and no operand can be pre-packed.
    std::unique_ptr<Space> make_space(const Op &op, const Machine &machine,
                                      PackedBy packed_by = PackedBy::Kernel) const {
        return make(op, machine, packed_by);
    }
};

// For the table:
//   make_template<MatmulParameters>("matmul", "products of matrices", is_matmul,
//                                   matmul_parameters, schedule_matmul)
// `defaults` returns the parameters with their legal values, and may take who packs; `against` may
// return a reason not to try a combination.
template<typename P, typename Defaults>
LibraryTemplate make_template(std::string name, std::string summary, std::function<bool(const Op &)> matches,
                              Defaults defaults, typename StructSpace<P>::Make make,
                              typename StructSpace<P>::Against against = nullptr,
                              typename StructSpace<P>::Estimate estimate = nullptr,
                              std::function<bool(const Op &)> packs_ahead = nullptr) {
    return {std::move(name), std::move(summary), std::move(matches),
            [=](const Op &op, const Machine &machine, PackedBy packed_by) -> std::unique_ptr<Space> {
                P begin;
                if constexpr (std::is_invocable_v<Defaults, const Op &, const Machine &, PackedBy>) {
                    begin = defaults(op, machine, packed_by);
                } else {
                    begin = defaults(op, machine);
                }
                return std::make_unique<StructSpace<P>>(op, machine, std::move(begin), make, against, estimate,
                                                        packed_by);
            },
            std::move(packs_ahead)};
}

} // namespace kumiko
