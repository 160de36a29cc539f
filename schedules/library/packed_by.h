// Whether a kernel or its caller packs an operand.
#pragma once

namespace kumiko {

// Who packs an operand that a space may pre-pack: the kernel in each call, or its caller once
// ("ahead"; such a kernel has another signature). If the kernel packs, the parameter keeps all its
// values and the space has a reason against "ahead"; if the caller packs, "ahead" is the only
// value.
enum class PackedBy { Kernel, Caller };
inline PackedBy packed_by(bool ahead) { return ahead ? PackedBy::Caller : PackedBy::Kernel; }

} // namespace kumiko
