#include "tests/fakes/cuda/fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// void baton_fiber_switch(void** save, void* load): pushes what the calling convention asks a function to preserve,
// stores the stack pointer in *save, takes `load` for it, pops the same and returns there.
// baton_fiber_start: where a new fiber's first switch returns to; calls the function in the first preserved register
// with the second as argument.
#if defined(__x86_64__)
asm(R"(
.text
.globl baton_fiber_switch
.type baton_fiber_switch,@function
baton_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size baton_fiber_switch,.-baton_fiber_switch
.globl baton_fiber_start
.type baton_fiber_start,@function
baton_fiber_start:
  movq %r12, %rdi
  call *%r13
  ud2
.size baton_fiber_start,.-baton_fiber_start
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl baton_fiber_switch
.type baton_fiber_switch,%function
baton_fiber_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size baton_fiber_switch,.-baton_fiber_switch
.globl baton_fiber_start
.type baton_fiber_start,%function
baton_fiber_start:
  mov x0, x19
  blr x20
  brk #1
.size baton_fiber_start,.-baton_fiber_start
)");
#else
#error "no fiber switch for this processor"
#endif

extern "C" void baton_fiber_switch(void** save, void* load);
extern "C" void baton_fiber_start();

namespace baton::stand_in {

Fiber::Fiber() {
#if defined(__SANITIZE_THREAD__)
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(void (*entry)(void*), void* argument, size_t stack_bytes) : entry_(entry), argument_(argument) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  stack_bytes_ = (stack_bytes + page - 1) / page * page + page;
  void* memory =
      mmap(nullptr, stack_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page, PROT_NONE);
  stack_ = static_cast<std::byte*>(memory);
  known_bottom_ = stack_ + page;
  known_bytes_ = stack_bytes_ - page;
#if defined(__SANITIZE_THREAD__)
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
  Restart();
}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  munmap(stack_, stack_bytes_);
}

void Fiber::Restart() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(known_bottom_, known_bytes_);
#endif
  fake_stack_ = nullptr;
  // What baton_fiber_switch pops, then where it returns to. The stack is aligned to 16 bytes there.
#if defined(__x86_64__)
  void** top = reinterpret_cast<void**>(stack_ + stack_bytes_ - 16) - 7;
  std::memset(top, 0, 7 * sizeof(void*));
  top[2] = reinterpret_cast<void*>(&Fiber::Main);  // r13
  top[3] = this;                                   // r12
  top[6] = reinterpret_cast<void*>(baton_fiber_start);
#else
  void** top = reinterpret_cast<void**>(stack_ + stack_bytes_ - 16) - 20;
  std::memset(top, 0, 20 * sizeof(void*));
  top[0] = this;                                         // x19
  top[1] = reinterpret_cast<void*>(&Fiber::Main);        // x20
  top[11] = reinterpret_cast<void*>(baton_fiber_start);  // x30
#endif
  stack_pointer_ = top;
}

void Fiber::Main(Fiber* self) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  self->entry_(self->argument_);
  __builtin_trap();
}

#if defined(__SANITIZE_THREAD__)
// Instrumented code counts its calls and returns, which do not pair up across a switch.
__attribute__((no_sanitize("thread")))
#endif
void Fiber::SwitchTo(Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  if (known_bottom_ == nullptr) {  // a thread's own stack
    pthread_attr_t attributes;
    pthread_getattr_np(pthread_self(), &attributes);
    void* bottom;
    pthread_attr_getstack(&attributes, &bottom, &known_bytes_);
    pthread_attr_destroy(&attributes);
    known_bottom_ = bottom;
  }
  __sanitizer_start_switch_fiber(&fake_stack_, to.known_bottom_, to.known_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(to.tsan_fiber_, 0);
#endif
  baton_fiber_switch(&stack_pointer_, to.stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

}  // namespace baton::stand_in
