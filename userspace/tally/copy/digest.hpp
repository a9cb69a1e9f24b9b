// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// SHA-256 of what has passed by, or nothing if that is not wanted.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace tally::cli {

using sha256 = std::array<std::byte, 32>;

std::string to_hex(const sha256 &hash);

class digest {
    public:
	explicit digest(bool wanted);

	void update(std::span<const std::byte> bytes);

	// The hash of everything so far, zero without one; ends it.
	sha256 finish();

    private:
	struct deleter {
		void operator()(evp_md_ctx_st *state) const noexcept;
	};
	std::unique_ptr<evp_md_ctx_st, deleter> state_;
};

} // namespace tally::cli
