// Steps of optimizers: operators of ai.onnx.preview.training.
#include "dsl/math.h"
#include "dsl/types.h"
#include "graph/formulas/formula.h"

#include <cmath>
#include <fmt/format.h>

namespace kumiko::graph {

namespace {

// What the optimizers share: the rate, the number of steps before, and then tensors in groups: all
// X, all gradients, all states of a kind.
struct Step {
    Call &c;
    size_t kinds, count; // of groups, and of tensors in each

    Step(Call &c, size_t kinds) : c(c), kinds(kinds), count(c.size() < 2 ? 0 : (c.size() - 2) / kinds) {
        if (count == 0 || c.size() != 2 + count * kinds)
            c.fail(fmt::format("{} inputs; legal are 2 and a multiple of {}", c.size(), kinds));
        if (View{c.type(0), c.extents(0), {}}.elements() != 1 || View{c.type(1), c.extents(1), {}}.elements() != 1)
            c.fail("a rate or a count of steps that is not one number");
    }
    // An element of tensor n of a group.
    Element at(size_t group, size_t n, const Indices &i) const { return c.in(2 + group * count + n).at(i); }
    Element rate(Type type) const { return cast(type, reshaped(c.in(0), {}).at({})); }
    Element steps(Type type) const { return cast(type, reshaped(c.in(1), {}).at({})); }
    Element norm(const Element &x, const Element &gradient) const {
        return number(x.type(), c.node.number("norm_coefficient", 0)) * x + gradient;
    }
    // Results in groups; each group is a function of the elements of one tensor.
    Results results(const std::vector<std::function<Element(size_t n, const Indices &i)>> &groups) const {
        for (size_t n = 0; n < count; n++) {
            for (size_t g = 1; g < kinds; g++) {
                if (c.extents(2 + g * count + n) != c.extents(2 + n) || c.type(2 + g * count + n) != c.type(2 + n))
                    c.fail("a tensor, its gradient and its states have different shapes or types");
            }
        }
        Results made;
        for (const auto &group : groups) {
            for (size_t n = 0; n < count; n++)
                made.push_back(
                    View{c.type(2 + n), c.extents(2 + n), [=](const Indices &i) -> Element { return group(n, i); }});
        }
        return made;
    }
};

Results momentum(Call &c) {
    const Step s(c, 3);
    const double alpha = c.node.number("alpha", 0), beta = c.node.number("beta", 0);
    const bool nesterov = c.choice("mode", "standard", {"standard", "nesterov"}) == "nesterov";
    const auto velocity = [=](size_t n, const Indices &i) -> Element {
        const Element x = s.at(0, n, i), gradient = s.norm(x, s.at(1, n, i));
        const Type t = x.type();
        const Element share = select(s.steps(t) > number(t, 0), number(t, beta), number(t, 1));
        return number(t, alpha) * s.at(2, n, i) + share * gradient;
    };
    const auto moved = [=](size_t n, const Indices &i) -> Element {
        const Element x = s.at(0, n, i), v = velocity(n, i);
        const Type t = x.type();
        const Element along = nesterov ? Element(s.norm(x, s.at(1, n, i)) + number(t, alpha) * v) : v;
        return x - s.rate(t) * along;
    };
    return s.results({moved, velocity});
}

Results adagrad(Call &c) {
    const Step s(c, 3);
    const double epsilon = c.node.number("epsilon", 1e-6f), decay = c.node.number("decay_factor", 0);
    const auto squares = [=](size_t n, const Indices &i) -> Element {
        const Element gradient = s.norm(s.at(0, n, i), s.at(1, n, i));
        return s.at(2, n, i) + gradient * gradient;
    };
    const auto moved = [=](size_t n, const Indices &i) -> Element {
        const Element x = s.at(0, n, i);
        const Type t = x.type();
        const Element rate = s.rate(t) / (number(t, 1) + s.steps(t) * number(t, decay));
        return x - rate * s.norm(x, s.at(1, n, i)) / (sqrt(squares(n, i)) + number(t, epsilon));
    };
    return s.results({moved, squares});
}

Results adam(Call &c) {
    const Step s(c, 4);
    const double alpha = c.node.number("alpha", 0.9f), beta = c.node.number("beta", 0.999f),
                 epsilon = c.node.number("epsilon", 1e-6f), after = c.node.number("norm_coefficient_post", 0);
    const auto mean = [=](size_t n, const Indices &i) -> Element {
        const Element x = s.at(0, n, i);
        const Type t = x.type();
        return number(t, alpha) * s.at(2, n, i) + number(t, 1 - alpha) * s.norm(x, s.at(1, n, i));
    };
    const auto squares = [=](size_t n, const Indices &i) -> Element {
        const Element x = s.at(0, n, i), gradient = s.norm(x, s.at(1, n, i));
        const Type t = x.type();
        return number(t, beta) * s.at(3, n, i) + number(t, 1 - beta) * (gradient * gradient);
    };
    const auto moved = [=](size_t n, const Indices &i) -> Element {
        const Element x = s.at(0, n, i);
        const Type t = x.type();
        const Element one = number(t, 1), steps = s.steps(t);
        const auto left = [&](double factor) -> Element { return one - pow(number(t, factor), steps); };
        const Element first = steps <= number(t, 0);
        const Element rate = s.rate(t) * select(first, one, sqrt(left(beta)) / left(alpha));
        const Element next = x - rate * (mean(n, i) / (sqrt(squares(n, i)) + number(t, epsilon)));
        return number(t, 1 - after) * next;
    };
    return s.results({moved, mean, squares});
}

} // namespace

std::vector<Operator> training_operators() {
    const std::string domain = "ai.onnx.preview.training";
    return {{"Momentum", 1, momentum, domain}, {"Adagrad", 1, adagrad, domain}, {"Adam", 1, adam, domain}};
}

} // namespace kumiko::graph
