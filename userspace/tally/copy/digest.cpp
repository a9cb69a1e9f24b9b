// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "digest.hpp"
#include "failure.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

namespace tally::cli {
namespace {

void check(int ok)
{
	if (ok != 1)
		throw failure(exit_status::failed, "the SHA-256 of libcrypto does not work");
}

} // namespace

std::string to_hex(const sha256 &hash)
{
	std::string text;
	for (const auto byte : hash)
		text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
	return text;
}

void digest::deleter::operator()(evp_md_ctx_st *state) const noexcept
{
	EVP_MD_CTX_free(state);
}

digest::digest(bool wanted)
{
	if (!wanted)
		return;
	state_.reset(EVP_MD_CTX_new());
	check(state_ ? EVP_DigestInit_ex(state_.get(), EVP_sha256(), nullptr) : 0);
}

void digest::update(std::span<const std::byte> bytes)
{
	if (state_)
		check(EVP_DigestUpdate(state_.get(), bytes.data(), bytes.size()));
}

sha256 digest::finish()
{
	sha256 hash{};
	if (state_)
		check(EVP_DigestFinal_ex(state_.get(), reinterpret_cast<unsigned char *>(hash.data()), nullptr));
	return hash;
}

} // namespace tally::cli
