// Sums of products of two factors, each an element plus or minus a number: (A - y) * (B - z).
#pragma once

#include "dsl/op.h"

namespace kumiko {

// Whether `expand` multiplies the stage out.
bool is_shifted_product(const Stage &sum);
// Whether, besides, each factor has an axis of the sum that the other lacks, as products of
// matrices and convolutions have.
bool is_shifted_contraction(const Stage &sum);

} // namespace kumiko
