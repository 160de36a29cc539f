#pragma once

namespace kumiko {

// Who packs an operand that a space may pack ahead of time: the kernel in each call, or its caller
// once ("ahead", which makes another kernel, called differently). A space of kernels that pack has
// all values of such a parameter and a reason against "ahead"; a space of kernels whose callers
// pack has that value alone.
enum class PackedBy { Kernel, Caller };
inline PackedBy packed_by(bool ahead) { return ahead ? PackedBy::Caller : PackedBy::Kernel; }

} // namespace kumiko
