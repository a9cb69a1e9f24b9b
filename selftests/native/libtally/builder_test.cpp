// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Commands of the uverbs ioctl ABI, byte by byte.
#include "uverbs_command.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace {

using namespace tally::uverbs;

struct wide {
	std::uint64_t a, b;
};

enum class colour { red, green = 2 };

constexpr in<std::uint8_t> in_u8{1};
constexpr in<std::uint32_t> in_u32{2};
constexpr in<std::uint64_t> in_u64{3};
constexpr in<wide> in_wide{0x1004};
constexpr in_array<std::uint16_t> in_u16s{5};
constexpr out<std::uint32_t> out_u32{6};
constexpr constant<colour> in_colour{7};
constexpr object in_object{8};
constexpr new_object in_new{9};
constexpr objects in_objects{10};
constexpr file in_file{11};

// A little-endian image, as the ABI is that of the machine and the tests run on such ones.
class image {
    public:
	image &u16(std::uint16_t v) { return put(&v, sizeof(v)); }
	image &u32(std::uint32_t v) { return put(&v, sizeof(v)); }
	image &u64(std::uint64_t v) { return put(&v, sizeof(v)); }
	image &pointer(const void *p) { return u64(reinterpret_cast<std::uintptr_t>(p)); }
	// Id, length, flags (mandatory), nothing reserved.
	image &attribute(std::uint16_t id, std::uint16_t length) { return u16(id).u16(length).u16(1).u16(0); }
	image &header(std::uint16_t length, std::uint16_t object, std::uint16_t method, std::uint16_t attrs,
		      std::uint32_t driver)
	{
		return u16(length).u16(object).u16(method).u16(attrs).u64(0).u32(driver).u32(0);
	}

	const std::vector<std::byte> &bytes() const { return bytes_; }

    private:
	image &put(const void *p, std::size_t n)
	{
		const auto *from = static_cast<const std::byte *>(p);
		bytes_.insert(bytes_.end(), from, from + n);
		return *this;
	}

	std::vector<std::byte> bytes_;
};

// What the transport was given.
std::vector<std::byte> sent;
int sent_fd;
int answer;
std::uint64_t answered_handle;

int record(int fd, ib_uverbs_ioctl_hdr *command)
{
	const auto *from = reinterpret_cast<const std::byte *>(command);
	sent.assign(from, from + command->length);
	sent_fd = fd;
	for (std::size_t i = 0; i < command->num_attrs; ++i)
		if (command->attrs[i].attr_id == in_new.id)
			command->attrs[i].data = answered_handle;
	return answer;
}

class builder : public testing::Test {
    protected:
	builder() : former_(set_transport(record))
	{
		sent.clear();
		answer = 0;
	}
	~builder() override { set_transport(former_); }

    private:
	transport former_;
};

TEST_F(builder, a_command_without_attributes_is_a_header)
{
	EXPECT_EQ((command{19, 0x1000}.run(5, 1)), 0);
	EXPECT_EQ(sent, image().header(24, 19, 0x1000, 0, 1).bytes());
	EXPECT_EQ(sent_fd, 5);
}

TEST_F(builder, values_up_to_eight_bytes_travel_within_their_attribute)
{
	EXPECT_EQ(
		(command{4, 2, put(in_u8, 0xab), put(in_u32, 0x01020304), put(in_u64, 0x1122334455667788)}.run(3, 17)),
		0);
	EXPECT_EQ(sent, image().header(24 + 3 * 16, 4, 2, 3, 17)
				.attribute(1, 1)
				.u64(0xab)
				.attribute(2, 4)
				.u64(0x01020304)
				.attribute(3, 8)
				.u64(0x1122334455667788)
				.bytes());
}

TEST_F(builder, longer_values_travel_by_pointer)
{
	const wide value{1, 2};
	EXPECT_EQ((command{4, 2, put(in_wide, value)}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 4, 2, 1, 1).attribute(0x1004, 16).pointer(&value).bytes());
}

TEST_F(builder, arrays_travel_within_their_attribute_up_to_eight_bytes)
{
	const std::array<std::uint16_t, 4> four{1, 2, 3, 4};
	const std::array<std::uint16_t, 5> five{1, 2, 3, 4, 5};
	EXPECT_EQ((command{4, 2, put(in_u16s, four)}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 4, 2, 1, 1).attribute(5, 8).u64(0x0004000300020001).bytes());
	EXPECT_EQ((command{4, 2, put(in_u16s, five)}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 4, 2, 1, 1).attribute(5, 10).pointer(five.data()).bytes());
}

TEST_F(builder, an_empty_array_has_no_length_and_no_data)
{
	EXPECT_EQ((command{4, 2, put(in_u16s, {})}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 4, 2, 1, 1).attribute(5, 0).u64(0).bytes());
}

TEST_F(builder, outputs_travel_by_pointer_however_short)
{
	std::uint32_t value = 0;
	EXPECT_EQ((command{0, 8, put(out_u32, value)}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 0, 8, 1, 1).attribute(6, 4).pointer(&value).bytes());
}

TEST_F(builder, constants_are_eight_bytes)
{
	EXPECT_EQ((command{0, 8, put(in_colour, colour::green)}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 0, 8, 1, 1).attribute(7, 8).u64(2).bytes());
}

TEST_F(builder, handles_and_files_have_no_length)
{
	EXPECT_EQ((command{0, 8, put(in_object, 0xdeadbeef), put(in_file, 9), put(in_file, -1)}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(72, 0, 8, 3, 1)
				.attribute(8, 0)
				.u64(0xdeadbeef)
				.attribute(11, 0)
				.u64(9)
				.attribute(11, 0)
				.u64(UINT64_MAX)
				.bytes());
}

TEST_F(builder, arrays_of_handles_have_a_length)
{
	const std::array<std::uint32_t, 3> three{1, 2, 3};
	EXPECT_EQ((command{0, 8, put(in_objects, std::span{three}.first(2))}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 0, 8, 1, 1).attribute(10, 8).u64(0x0000000200000001).bytes());
	EXPECT_EQ((command{0, 8, put(in_objects, three)}.run(3, 1)), 0);
	EXPECT_EQ(sent, image().header(40, 0, 8, 1, 1).attribute(10, 12).pointer(three.data()).bytes());
}

TEST_F(builder, the_handle_of_a_new_object_comes_back)
{
	std::uint32_t handle = 0;
	answered_handle = 77;
	EXPECT_EQ((command{19, 0, put(in_u32, 1), put(in_new, handle)}.run(3, 1)), 0);
	EXPECT_EQ(handle, 77u);
}

TEST_F(builder, a_failed_command_leaves_the_handle_alone)
{
	std::uint32_t handle = 5;
	answered_handle = 77;
	answer = ENOMEM;
	EXPECT_EQ((command{19, 0, put(in_new, handle)}.run(3, 1)), ENOMEM);
	EXPECT_EQ(handle, 5u);
}

TEST_F(builder, an_attribute_whose_condition_fails_is_left_out)
{
	std::uint32_t handle = 0;
	answered_handle = 78;
	EXPECT_EQ((command{4, 2, put_if(false, put(in_u32, 1)), put_if(true, put(in_u8, 2)), put(in_new, handle)}.run(
			  3, 1)),
		  0);
	EXPECT_EQ(sent, image().header(56, 4, 2, 2, 1).attribute(1, 1).u64(2).attribute(9, 0).u64(0).bytes());
	EXPECT_EQ(handle, 78u);
}

TEST_F(builder, what_is_too_long_for_its_length_never_reaches_the_kernel)
{
	const std::vector<std::uint16_t> many(40'000);
	EXPECT_EQ((command{4, 2, put(in_u16s, many)}.run(3, 1)), EINVAL);
	EXPECT_TRUE(sent.empty());
}

TEST(transport, unknown_commands_are_unsupported_ones)
{
	EXPECT_EQ(for_caller(EPROTONOSUPPORT), ENOTSUP);
	EXPECT_EQ(for_caller(EOPNOTSUPP), ENOTSUP);
	EXPECT_EQ(for_caller(ENOTTY), ENOTSUP);
	EXPECT_EQ(for_caller(ENOSYS), ENOTSUP);
	EXPECT_EQ(for_caller(EBUSY), EBUSY);
	EXPECT_EQ(for_caller(0), 0);
}

TEST(transport, the_real_one_gives_the_errno_of_the_ioctl)
{
	ib_uverbs_ioctl_hdr command{};
	command.length = sizeof(command);
	EXPECT_EQ(issue(-1, &command), EBADF);
}

} // namespace
