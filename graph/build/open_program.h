// One program for all sizes of a model within ranges.
#pragma once

#include "graph/build/compiled_model.h"
#include "support/polynomial.h"

namespace kumiko::graph {

// An open size of a model's inputs: least, least + step, …, at most `most`.
struct OpenSize {
    std::string name; // as in FixOptions::sizes
    int64_t least = 1, most = 1, step = 1;
};

// A program whose numbers are polynomials. Their variables are the sizes divided by their steps,
// rounded down.
struct OpenProgram {
    std::vector<OpenSize> sizes;
    std::vector<Size> symbols;       // of the variables, in kernels
    Program program;                 // of the largest sizes
    std::vector<Op> kernels;         // of all sizes, in the order of the program's
    std::vector<Polynomial> numbers; // in the order of for_each_number

    // The values of the variables. Throws UserError for a size outside of its range or steps.
    std::vector<int64_t> variables(const std::map<std::string, int64_t> &values) const;
    // The kernels with numbers in place of sizes.
    std::vector<Op> kernels_at(const std::vector<int64_t> &variables) const;
    // The program of these sizes.
    Program at(const std::map<std::string, int64_t> &values) const;
};

// Calls f with each number of a program that may depend on sizes, except offsets in the arena, and
// with what has it, for messages.
using ForNumber = std::function<void(int64_t &number, const std::string &owner)>;
void for_each_number(Program &program, const ForNumber &f);

// Makes the program at several sizes with the choices of the largest ones, and finds the numbers
// and formulas between them (PolynomialFit). `options.sizes`: the sizes that are numbers.
//
// Throws as make_graph and make_program; UserError for a range that is empty or no size of the
// model; Unsupported, and names the node, if steps or formulas differ in more than numbers, or if a
// number is no polynomial of the sizes.
OpenProgram make_open_program(const Model &model, const CompileModelOptions &options,
                              const std::vector<OpenSize> &sizes, const OpSeconds &seconds = nullptr);

} // namespace kumiko::graph
