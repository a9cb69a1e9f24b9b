/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Instructions as the assembler encodes them, each with a record of what it is: address, length, width of the
 * store (0: not to be decoded), source register (0xff: none), text.  struct record in decode_test.cpp.
 */
	.intel_syntax noprefix

	.macro record width:req reg:req insn:vararg
	.text
771:	\insn
772:
	.section .rodata.text,"a"
773:	.asciz "\insn"
	.section .data.rel.ro.records,"aw"
	.quad 771b
	.quad 773b
	.byte 772b - 771b
	.byte \width
	.byte \reg
	.zero 5
	.text
	.endm

	/* One instruction with every kind of memory operand; \pre and \post are what stands around the operand. */
	.macro every_operand width:req reg:req pre:req post
	.irp base, rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15
	record \width, \reg, \pre [\base]\post
	record \width, \reg, \pre [\base + 0x20]\post
	record \width, \reg, \pre [\base - 0x80]\post
	record \width, \reg, \pre [\base + 0x800]\post
	record \width, \reg, \pre [\base + rax*1]\post
	record \width, \reg, \pre [\base + rbp*2 + 8]\post
	record \width, \reg, \pre [\base + r13*4 + 0x12345]\post
	record \width, \reg, \pre fs:[\base + 0x40]\post
	.endr
	record \width, \reg, \pre [rip + 0x1234]\post
	record \width, \reg, \pre [r12*8 + 0x800]\post
	record \width, \reg, \pre [rbp*8]\post
	record \width, \reg, \pre ds:[0x1000]\post
	record \width, \reg, \pre [eax + 0x800]\post
	record \width, \reg, \pre gs:[r9d + ecx*4 + 0x1000]\post
	.endm

	.section .data.rel.ro.records,"aw"
	.balign 8
	.globl x86_records
x86_records:
	.text

	/* From every general register. */
	.irp r, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	.irp operand, "[rdi]", "[rsp]", "[r13]", "[r12 + 0x800]", "[rip + 4]", "[rbx + r15*8 - 4]"
	.if \r == 0
	record 8, \r, mov qword ptr \operand, rax
	record 4, \r, mov dword ptr \operand, eax
	record 2, \r, mov word ptr \operand, ax
	record 8, \r, movnti qword ptr \operand, rax
	record 8, \r, movdiri qword ptr \operand, rax
	.elseif \r == 1
	record 8, \r, mov qword ptr \operand, rcx
	record 4, \r, mov dword ptr \operand, ecx
	.elseif \r == 2
	record 8, \r, mov qword ptr \operand, rdx
	record 4, \r, movnti dword ptr \operand, edx
	.elseif \r == 3
	record 8, \r, mov qword ptr \operand, rbx
	record 2, \r, mov word ptr \operand, bx
	.elseif \r == 4
	record 8, \r, mov qword ptr \operand, rsp
	record 4, \r, mov dword ptr \operand, esp
	.elseif \r == 5
	record 8, \r, mov qword ptr \operand, rbp
	record 4, \r, movdiri dword ptr \operand, ebp
	.elseif \r == 6
	record 8, \r, mov qword ptr \operand, rsi
	record 4, \r, mov dword ptr \operand, esi
	.elseif \r == 7
	record 8, \r, mov qword ptr \operand, rdi
	record 8, \r, movnti qword ptr \operand, rdi
	.else
	record 8, \r, mov qword ptr \operand, r\r
	record 4, \r, mov dword ptr \operand, r\r\()d
	record 2, \r, mov word ptr \operand, r\r\()w
	record 8, \r, movnti qword ptr \operand, r\r
	record 4, \r, movdiri dword ptr \operand, r\r\()d
	.endif
	.endr
	.endr

	every_operand 8, 0, "mov qword ptr", ", rax"
	every_operand 8, 9, "mov qword ptr", ", r9"
	every_operand 4, 2, "mov dword ptr", ", edx"
	every_operand 2, 14, "mov word ptr", ", r14w"
	every_operand 1, 0xff, "mov byte ptr", ", cl"
	every_operand 1, 0xff, "mov byte ptr", ", sil"
	record 1, 0xff, mov byte ptr [rdi], ah
	every_operand 1, 0xff, "mov byte ptr", ", 0x11"
	every_operand 2, 0xff, "mov word ptr", ", 0x1122"
	every_operand 4, 0xff, "mov dword ptr", ", 0x11223344"
	every_operand 8, 0xff, "mov qword ptr", ", 0x11223344"
	every_operand 8, 10, "movnti", ", r10"
	record 8, 0, movabs [0x1122334455667788], rax
	record 4, 0, movabs [0x1122334455667788], eax
	record 2, 0, movabs [0x1122334455667788], ax
	record 1, 0, movabs [0x1122334455667788], al
	every_operand 8, 0xff, "movbe qword ptr", ", r11"
	every_operand 4, 0xff, "movbe dword ptr", ", ebx"
	record 64, 0xff, movdir64b rdi, [rsi]
	record 64, 0xff, movdir64b r10, [r12 + 0x40]

	/* SSE */
	every_operand 16, 0xff, "movups", ", xmm0"
	every_operand 16, 0xff, "movups", ", xmm15"
	every_operand 16, 0xff, "movupd", ", xmm3"
	every_operand 16, 0xff, "movaps", ", xmm1"
	every_operand 16, 0xff, "movapd", ", xmm9"
	every_operand 16, 0xff, "movdqa", ", xmm2"
	every_operand 16, 0xff, "movdqu", ", xmm10"
	every_operand 16, 0xff, "movntps", ", xmm4"
	every_operand 16, 0xff, "movntpd", ", xmm12"
	every_operand 16, 0xff, "movntdq", ", xmm5"
	every_operand 4, 0xff, "movss", ", xmm6"
	every_operand 8, 0xff, "movsd", ", xmm7"
	every_operand 8, 0xff, "movlps", ", xmm8"
	every_operand 8, 0xff, "movhps", ", xmm1"
	every_operand 8, 0xff, "movlpd", ", xmm11"
	every_operand 8, 0xff, "movhpd", ", xmm1"
	every_operand 8, 0xff, "movq qword ptr", ", xmm13"
	every_operand 4, 0xff, "movd dword ptr", ", xmm14"
	every_operand 8, 0xff, "movq qword ptr", ", mm1"
	every_operand 4, 0xff, "movd dword ptr", ", mm2"
	every_operand 8, 0xff, "movntq", ", mm3"
	every_operand 1, 0xff, "pextrb byte ptr", ", xmm1, 3"
	every_operand 2, 0xff, "pextrw word ptr", ", xmm1, 3"
	every_operand 4, 0xff, "pextrd dword ptr", ", xmm1, 3"
	every_operand 8, 0xff, "pextrq qword ptr", ", xmm9, 1"
	every_operand 4, 0xff, "extractps dword ptr", ", xmm1, 3"

	/* AVX */
	every_operand 16, 0xff, "vmovups", ", xmm1"
	every_operand 32, 0xff, "vmovups", ", ymm9"
	every_operand 32, 0xff, "vmovaps", ", ymm1"
	every_operand 16, 0xff, "vmovdqu", ", xmm1"
	every_operand 32, 0xff, "vmovdqu", ", ymm1"
	every_operand 32, 0xff, "vmovdqa", ", ymm15"
	every_operand 16, 0xff, "vmovntdq", ", xmm1"
	every_operand 32, 0xff, "vmovntdq", ", ymm1"
	every_operand 32, 0xff, "vmovntps", ", ymm1"
	every_operand 4, 0xff, "vmovss", ", xmm1"
	every_operand 8, 0xff, "vmovsd", ", xmm1"
	every_operand 8, 0xff, "vmovlps", ", xmm1"
	every_operand 8, 0xff, "vmovhps", ", xmm1"
	every_operand 8, 0xff, "vmovq qword ptr", ", xmm1"
	every_operand 4, 0xff, "vmovd dword ptr", ", xmm1"
	every_operand 8, 0xff, "vpextrq qword ptr", ", xmm1, 1"
	every_operand 16, 0xff, "vextractf128", ", ymm1, 1"
	every_operand 16, 0xff, "vextracti128", ", ymm1, 1"

	/* AVX-512, with compressed and full displacements */
	every_operand 64, 0xff, "vmovdqu64", ", zmm1"
	every_operand 64, 0xff, "vmovdqu64", ", zmm31"
	every_operand 64, 0xff, "vmovdqu8", ", zmm1"
	every_operand 64, 0xff, "vmovdqu16", ", zmm17"
	every_operand 64, 0xff, "vmovdqa32", ", zmm1"
	every_operand 64, 0xff, "vmovdqa64", ", zmm1"
	every_operand 64, 0xff, "vmovups", ", zmm1"
	every_operand 64, 0xff, "vmovaps", ", zmm1"
	every_operand 64, 0xff, "vmovapd", ", zmm1"
	every_operand 64, 0xff, "vmovntdq", ", zmm1"
	every_operand 64, 0xff, "vmovntps", ", zmm1"
	every_operand 32, 0xff, "vmovdqu32", ", ymm20"
	every_operand 16, 0xff, "vmovdqu32", ", xmm20"
	every_operand 8, 0xff, "vmovsd", ", xmm20"
	every_operand 4, 0xff, "vmovss", ", xmm20"
	every_operand 8, 0xff, "vmovq qword ptr", ", xmm20"
	every_operand 4, 0xff, "vmovd dword ptr", ", xmm20"
	every_operand 16, 0xff, "vextractf32x4", ", zmm1, 1"
	every_operand 32, 0xff, "vextracti64x4", ", zmm1, 1"
	record 64, 0xff, vmovdqu64 [rdi + 0x1fc0], zmm1
	record 64, 0xff, vmovdqu64 [rdi + 0x2000], zmm1

	/* What must not be skipped: it does more than store, or does not store. */
	every_operand 0, 0xff, "mov rax, qword ptr"
	every_operand 0, 0xff, "movups xmm1,"
	every_operand 0, 0xff, "movq xmm1, qword ptr"
	every_operand 0, 0xff, "movdqu xmm1,"
	every_operand 0, 0xff, "vmovdqu64 zmm1,"
	every_operand 0, 0xff, "vmovq xmm1, qword ptr"
	every_operand 0, 0xff, "add qword ptr", ", rax"
	every_operand 0, 0xff, "add qword ptr", ", 1"
	every_operand 0, 0xff, "lock add qword ptr", ", rax"
	every_operand 0, 0xff, "xchg qword ptr", ", rax"
	every_operand 0, 0xff, "xadd qword ptr", ", rax"
	every_operand 0, 0xff, "cmpxchg qword ptr", ", rcx"
	every_operand 0, 0xff, "inc qword ptr"
	every_operand 0, 0xff, "push qword ptr"
	every_operand 0, 0xff, "pop qword ptr"
	every_operand 0, 0xff, "call qword ptr"
	every_operand 0, 0xff, "sete byte ptr"
	every_operand 0, 0xff, "fstp qword ptr"
	every_operand 0, 0xff, "xrelease mov qword ptr", ", rax"
	every_operand 0, 0xff, "crc32 rax, qword ptr"
	every_operand 0, 0xff, "movbe rax, qword ptr"
	every_operand 0, 0xff, "vmaskmovps", ", ymm1, ymm2"
	every_operand 0, 0xff, "vmovdqu64", "{k1}, zmm1"
	record 0, 0xff, rep movsb
	record 0, 0xff, rep movsq
	record 0, 0xff, movsq
	record 0, 0xff, rep stosq
	record 0, 0xff, stosb
	record 0, 0xff, maskmovdqu xmm1, xmm2
	record 0, 0xff, mov rax, rcx
	record 0, 0xff, mov eax, 5
	record 0, 0xff, movups xmm1, xmm2
	record 0, 0xff, vmovdqu64 zmm1, zmm2
	record 0, 0xff, vmovups ymm1, ymm2
	record 0, 0xff, syscall
	record 0, 0xff, nop
	record 0, 0xff, ret
	record 0, 0xff, int3
	record 0, 0xff, xbegin 772f
	record 0, 0xff, xabort 1

	.section .data.rel.ro.records,"aw"
	.globl x86_records_end
x86_records_end:
	.section .note.GNU-stack,"",@progbits
