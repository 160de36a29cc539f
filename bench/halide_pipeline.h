// Converts formulas to Halide pipelines, for Halide's own schedulers. The Halide target
// (targets/halide/halide_module.h) receives loops that our schedules made; here Halide receives the
// algorithm only.
#pragma once

#include "dsl/halide_passes.h"
#include "dsl/op.h"

namespace kumiko::bench {

// Alternative ways to express a formula in Halide.
struct HalideForm {
    // `where` becomes a predicate of the domain; otherwise it selects the term or the identity.
    bool domain_conditions = true;
    // Vectors of stages may reach beyond the edges: inputs are read as by
    // Halide::BoundaryConditions::repeat_edge, and outputs that other stages read are copied.
    bool beyond_edges = false;
};

struct HalidePipeline {
    Halide::Pipeline pipeline;
    std::vector<Halide::Argument> arguments; // the inputs of the op, in order
};

// A function for each stage. Extents are constants, for Halide's scheduler as for its compiler.
//
//   stage               | function
//   --------------------|---------------------------------------------------------------------
//   pointwise           | a pure definition
//   reduction           | the identity, and an update over a reduction domain
//   ... by `where`      | see HalideForm
//   ... of several      | the domain has one dimension
//   values              |
//   ... that is output  | also a pure copy, at which Halide's scheduler tiles the reduction
//   scatter             | an update at the index; indices have to be inside
//   padding             | as Halide::BoundaryConditions writes it, with `likely`
//   recurrence          | an update over the axes along which it reads earlier elements
//
// Throws Unsupported for what a Halide pipeline cannot express: symbolic sizes, arrays that are
// updated in place, extern stages, and recurrences that other stages read step by step.
HalidePipeline halide_pipeline(const Op &op, const HalideForm &form = {});

} // namespace kumiko::bench
