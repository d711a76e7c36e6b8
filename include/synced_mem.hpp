/**
 * @file
 * The library for C++17 and later, by inline functions on those for C: owners, accesses with a type, guards, and
 * page-locked memory for containers. It includes the other headers for C++. Details: docs/guide/cpp.md.
 *
 * A member with the name of a C function makes that call, and synced_mem.h has its effect, blocking, ownership, threads
 * and errors. A function that is not here takes the handle of get(), and check() takes its result.
 *
 * The defaults, to which the comments below add:
 * - Failure. A failed call throws an error. Without exceptions (-fno-exceptions) a function returns its status, a maker
 *   and a constructor give an empty owner or guard, and an accessor an access to NULL; synced_mem_last_error() has the
 *   status. What is noexcept does not fail, or says how.
 * - A call on an empty or moved-from owner is one on NULL: ERR_INVALID_ARGUMENT.
 * - A const owner allows calls that leave its contents as they are: reads, transfers, views.
 * - Threads. Several threads may use one object, but not one owner or guard while one of them changes it.
 * - Files with and without exceptions may be linked to one program, but have types of their own.
 * - A member exists since its class, unless its comment names a version.
 */
#ifndef SYNCED_MEM_HPP
#define SYNCED_MEM_HPP

#if __cplusplus < 201703L && (!defined(_MSVC_LANG) || _MSVC_LANG < 201703L)
#error "synced_mem.hpp needs C++17"
#endif

#include "synced_mem.h"
#include "synced_mem/dlpack.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif

/** 1: failures are exceptions; 0: they are statuses. @since 0.2 */
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define SYNCED_MEM_EXCEPTIONS 1
#define SYNCED_MEM_FAILURES exceptions /* the inner namespace, of a name for each kind */
#include <memory_resource>
#include <stdexcept>
#else
#define SYNCED_MEM_EXCEPTIONS 0
#define SYNCED_MEM_FAILURES statuses
#endif

#if defined(__GNUC__) && !defined(_WIN32)
#define SYNCED_MEM_VISIBLE __attribute__((visibility("default"))) /* one type in all of a program's libraries */
#else
#define SYNCED_MEM_VISIBLE
#endif
#ifdef __GNUC__
#define SYNCED_MEM_COLD __attribute__((noinline, cold))
#else
#define SYNCED_MEM_COLD __declspec(noinline)
#endif

namespace synced
{

inline namespace SYNCED_MEM_FAILURES
{

/* ---- Failures ---- */

#if SYNCED_MEM_EXCEPTIONS
/** A failed call. what() has the detail: function, request, the CUDA runtime's error. @since 0.2 */
class SYNCED_MEM_VISIBLE error : public std::runtime_error
{
  public:
    /** Makes the error of a status, with the detail of the thread's last failed call if that had the status. */
    explicit error(synced_mem_status status)
        : std::runtime_error(status == synced_mem_last_error() ? synced_mem_last_error_message()
                                                               : synced_mem_status_message(status)),
          status_(status)
    {
    }

    /** Returns the status. */
    synced_mem_status status() const noexcept { return status_; }

  private:
    synced_mem_status status_;
};

/** The result of a call that may fail. @since 0.2 */
using outcome = void;
#else
/** The result of a call that may fail: its status, not to be ignored. @since 0.2 */
struct [[nodiscard]] outcome {
    synced_mem_status status; /**< of the call */
    /** Returns the status. */
    operator synced_mem_status() const noexcept { return status; }
};
#endif

/** Not for programs. */
namespace detail
{

#if SYNCED_MEM_EXCEPTIONS
[[noreturn]] SYNCED_MEM_COLD inline void fail(synced_mem_status status)
{
    throw error(status);
}

[[noreturn]] SYNCED_MEM_COLD inline void fail()
{
    throw error(synced_mem_last_error());
}
#else
inline void fail() noexcept {}

inline void fail(synced_mem_status) noexcept {}
#endif

} // namespace detail

/** Throws the error of a status that is not SYNCED_MEM_OK; without exceptions returns it. @since 0.2 */
inline outcome check(synced_mem_status status)
{
#if SYNCED_MEM_EXCEPTIONS
    if (status != SYNCED_MEM_OK)
        detail::fail(status);
#else
    return {status};
#endif
}

/** Returns the pointer, an accessor's result; throws the error of the thread's last failed call if it is NULL; without
 * exceptions returns that. @since 0.2 */
template <class T> T *check(T *data)
{
    if (data == nullptr)
        detail::fail();
    return data;
}

/** Returns SYNCED_MEM_NO_STREAM, without a cast of C. @since 0.2 */
inline synced_mem_stream no_stream() noexcept
{
    return reinterpret_cast<synced_mem_stream>(UINTPTR_MAX);
}

/** Returns SYNCED_MEM_STREAM_LIBRARY, without a cast of C. @since 0.2 */
inline synced_mem_stream library_stream() noexcept
{
    return reinterpret_cast<synced_mem_stream>(UINTPTR_MAX - 1);
}

/* ---- Accesses ---- */

/** The pointer of an access, and the elements behind it. It owns nothing: the one rule says how long the pointer is
 * good, and the object must live. @since 0.2 */
template <class T = std::byte> class access
{
    static_assert(std::is_trivially_copyable_v<T>, "contents are moved as bytes");

  public:
    using element_type = T;                 /**< as named, const after a read */
    using value_type = std::remove_cv_t<T>; /**< without const */

    /** Makes an access to nothing. */
    access() noexcept = default;

    /** Makes an access of an object's pointer. Without exceptions the pointer may be NULL. */
    access(const synced_mem *mem, T *data) noexcept : mem_(mem), data_(data) {}

    /** An access to write is also one to read. */
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
    access(const access<U> &other) noexcept : mem_(other.mem()), data_(other.data())
    {
    }

    /** Returns the pointer of the access. */
    T *data() const noexcept { return data_; }
    /** Returns the pointer of the access, as in a call of C or of a kernel. */
    operator T *() const noexcept { return data_; }

    /** Returns the number of whole elements in the object now. */
    std::size_t size() const noexcept { return data_ != nullptr ? synced_mem_size(mem_) / sizeof(T) : 0; }
    /** Returns whether there are none. */
    bool empty() const noexcept { return size() == 0; }

    /** Returns the first element; for host copies. */
    T *begin() const noexcept { return data_; }
    /** Returns the end of the last element; for host copies. */
    T *end() const noexcept { return data_ + size(); }

#ifdef __cpp_lib_span
    /** Returns all elements, in C++20. */
    std::span<T> span() const noexcept
    {
        return {data_, size()};
    }
#endif

    /** Returns the object. */
    const synced_mem *mem() const noexcept
    {
        return mem_;
    }

  private:
    const synced_mem *mem_ = nullptr;
    T *data_ = nullptr;
};

/* ---- Tensors ---- */

/** A type's numbers in DLPack. A program adds its own, such as those of 16 bits, by a specialization. @since 0.2 */
template <class T> struct dlpack_type {
    static_assert(std::is_arithmetic_v<T>, "specialize synced::dlpack_type for this type");
    /** Of DLDataType. */
    static constexpr std::uint8_t code = std::is_same_v<T, bool>       ? 6
                                         : std::is_floating_point_v<T> ? 2
                                         : std::is_unsigned_v<T>       ? 1
                                                                       : 0;
    static constexpr std::uint8_t bits = 8 * sizeof(T); /**< of an element */
};

/** Bytes are unsigned numbers of 8 bits. @since 0.2 */
template <> struct dlpack_type<std::byte> : dlpack_type<std::uint8_t> {
};

/** The guard of a tensor, this library's or another's: its end calls the deleter, unless release() has handed the
 * tensor over. Programs that use it include DLPack's header. @since 0.2 */
template <class Tensor> class basic_tensor
{
  public:
    /** Makes an empty guard. */
    basic_tensor() noexcept = default;
    /** Guards a tensor, which is the guard's; NULL: none. */
    explicit basic_tensor(Tensor *tensor) noexcept : tensor_(tensor) {}
    /** Takes the other guard's tensor. */
    basic_tensor(basic_tensor &&other) noexcept : tensor_(other.release()) {}
    /** Ends the guard's own tensor, if any, and takes the other's. */
    basic_tensor &operator=(basic_tensor &&other) noexcept
    {
        basic_tensor(std::move(other)).swap(*this);
        return *this;
    }
    /** Calls the deleter, if there is a tensor. */
    ~basic_tensor()
    {
        if (tensor_ != nullptr && tensor_->deleter != nullptr)
            tensor_->deleter(tensor_);
    }

    /** Returns the tensor for a consumer, whose it is now; NULL if there is none. */
    [[nodiscard]] Tensor *release() noexcept { return std::exchange(tensor_, nullptr); }

    /** Returns the tensor, which stays the guard's. */
    Tensor *get() const noexcept { return tensor_; }
    /** Returns the tensor, which stays the guard's. */
    Tensor *operator->() const noexcept { return tensor_; }
    /** Returns whether there is a tensor. */
    explicit operator bool() const noexcept { return tensor_ != nullptr; }
    /** Exchanges the tensors of two guards. */
    void swap(basic_tensor &other) noexcept { std::swap(tensor_, other.tensor_); }

  private:
    Tensor *tensor_ = nullptr;
};

using tensor = basic_tensor<DLManagedTensorVersioned>; /**< of DLPack 1 @since 0.2 */
using legacy_tensor = basic_tensor<DLManagedTensor>;   /**< of earlier consumers @since 0.2 */

/** Not for programs. */
namespace detail
{

inline synced_mem_status to_dlpack(DLManagedTensorVersioned **out, synced_mem *mem,
                                   const synced_mem_dlpack_options *options) noexcept
{
    return synced_mem_to_dlpack(out, mem, options);
}

inline synced_mem_status to_dlpack(DLManagedTensor **out, synced_mem *mem,
                                   const synced_mem_dlpack_options *options) noexcept
{
    return synced_mem_to_dlpack_legacy(out, mem, options);
}

inline synced_mem_status from_dlpack(synced_mem **out, DLManagedTensorVersioned *tensor, synced_mem_stream stream,
                                     const synced_mem_options *options) noexcept
{
    return synced_mem_from_dlpack(out, tensor, stream, options);
}

inline synced_mem_status from_dlpack(synced_mem **out, DLManagedTensor *tensor, synced_mem_stream stream,
                                     const synced_mem_options *options) noexcept
{
    return synced_mem_from_dlpack_legacy(out, tensor, stream, options);
}

} // namespace detail

/* ---- Owners ---- */

/** The options of an object, with their defaults. @since 0.2 */
struct options : synced_mem_options {
    /** Fills in the defaults. */
    options() noexcept { synced_mem_options_init(this); }
};

class file; /* synced_mem/files.hpp */

/** The owner of one reference to an object, which its end gives up. It moves and does not copy. @since 0.2 */
class memory
{
  public:
    /** Makes an empty owner. */
    memory() noexcept = default;

    /** Makes an object of so many bytes. */
    explicit memory(std::size_t size) { made(synced_mem_create(&mem_, size, nullptr)); }
    /** Makes an object of so many bytes, with options. */
    memory(std::size_t size, const synced_mem_options &with) { made(synced_mem_create(&mem_, size, &with)); }

    /** Takes the other's reference; the other is empty. */
    memory(memory &&other) noexcept : mem_(other.detach()) {}
    /** Gives up the owner's own reference, if any, and takes the other's. */
    memory &operator=(memory &&other) noexcept
    {
        memory(std::move(other)).swap(*this);
        return *this;
    }
    /** Gives up the reference. If that fails (ERR_CUDA; a held object), the object leaks: release() reports it. */
    ~memory() { (void)synced_mem_release(mem_); }

    /** Makes the owner of a reference that C code owned; NULL: an empty one. */
    [[nodiscard]] static memory take(synced_mem *mem) noexcept
    {
        memory result;
        result.mem_ = mem;
        return result;
    }
    /** Makes the owner of a new reference. */
    [[nodiscard]] static memory retain(synced_mem *mem)
    {
        memory result;
        if (synced_mem_retain(mem) == SYNCED_MEM_OK)
            result.mem_ = mem;
        else
            detail::fail();
        return result;
    }
    /** Makes the owner of a new reference to this owner's object. */
    [[nodiscard]] memory retain() const { return retain(mem_); }

    /** Gives up the reference now; after a failure it stays the owner's. Does nothing to an empty owner. */
    outcome release()
    {
        const synced_mem_status status = synced_mem_release(mem_);
        if (status == SYNCED_MEM_OK)
            mem_ = nullptr;
        return check(status);
    }
    /** Returns the handle, and its reference with it; the owner is empty. */
    [[nodiscard]] synced_mem *detach() noexcept { return std::exchange(mem_, nullptr); }

    /** Returns the handle, for the functions of C. */
    synced_mem *get() const noexcept { return mem_; }
    /** Returns whether there is an object. */
    explicit operator bool() const noexcept { return mem_ != nullptr; }
    /** Exchanges the objects of two owners. */
    void swap(memory &other) noexcept { std::swap(mem_, other.mem_); }

    /** Makes a view of size bytes from offset on, an object of its own. */
    [[nodiscard]] memory view(std::size_t offset, std::size_t size) const
    {
        memory result;
        result.made(synced_mem_view(&result.mem_, mem_, offset, size, nullptr));
        return result;
    }

    /* ---- Access ---- */

    /** Returns the host copy, to read. */
    template <class T = std::byte> access<const T> cpu_data() const { return seen<const T>(synced_mem_cpu_data(mem_)); }
    /** Returns the host copy, to read and write. */
    template <class T = std::byte> access<T> mutable_cpu_data() { return seen<T>(synced_mem_mutable_cpu_data(mem_)); }
    /** Returns the host copy, to write every byte. */
    template <class T = std::byte> access<T> overwrite_cpu_data()
    {
        return seen<T>(synced_mem_overwrite_cpu_data(mem_));
    }

    /** Returns the device copy, to read. */
    template <class T = std::byte> access<const T> gpu_data() const { return seen<const T>(synced_mem_gpu_data(mem_)); }
    /** Returns the device copy, to read and write. */
    template <class T = std::byte> access<T> mutable_gpu_data() { return seen<T>(synced_mem_mutable_gpu_data(mem_)); }
    /** Returns the device copy, to write every byte. */
    template <class T = std::byte> access<T> overwrite_gpu_data()
    {
        return seen<T>(synced_mem_overwrite_gpu_data(mem_));
    }

    /** Returns the device copy, to read on the stream. */
    template <class T = std::byte> access<const T> gpu_data_on(synced_mem_stream stream) const
    {
        return seen<const T>(synced_mem_gpu_data_on(mem_, stream));
    }
    /** Returns the device copy, to read and write on the stream. */
    template <class T = std::byte> access<T> mutable_gpu_data_on(synced_mem_stream stream)
    {
        return seen<T>(synced_mem_mutable_gpu_data_on(mem_, stream));
    }
    /** Returns the device copy, to write every byte on the stream. */
    template <class T = std::byte> access<T> overwrite_gpu_data_on(synced_mem_stream stream)
    {
        return seen<T>(synced_mem_overwrite_gpu_data_on(mem_, stream));
    }

    /* ---- Transfers, copies, contents ---- */

    /** Transfers the host copy to the device, on the stream. */
    outcome async_gpu_push(synced_mem_stream stream) const { return check(synced_mem_async_gpu_push(mem_, stream)); }
    /** Transfers the device copy to the host, on the stream. */
    outcome async_cpu_pull(synced_mem_stream stream) const { return check(synced_mem_async_cpu_pull(mem_, stream)); }
    /** Ends the stream's use of the device copy. */
    outcome end_use_on(synced_mem_stream stream) const { return check(synced_mem_end_use_on(mem_, stream)); }
    /** Waits for the library's transfers, fills and allocations. */
    outcome wait() const { return check(synced_mem_wait(mem_)); }

    /** Copies the contents of from to the device copy, on the stream. */
    outcome async_gpu_copy(const memory &from, synced_mem_stream stream)
    {
        return check(synced_mem_async_gpu_copy(mem_, from.mem_, stream));
    }
    /** Copies the contents of from to the host copy. */
    outcome cpu_copy(const memory &from) { return check(synced_mem_cpu_copy(mem_, from.mem_)); }
    /** Copies a part of from to a part of this object, by default on the host. */
    outcome copy(std::size_t to_offset, const memory &from, std::size_t from_offset, std::size_t size,
                 synced_mem_stream stream = no_stream())
    {
        return check(synced_mem_copy(mem_, to_offset, from.mem_, from_offset, size, stream));
    }
    /** Gives up the contents and keeps the memory. */
    outcome clear() { return check(synced_mem_clear(mem_)); }

    /* ---- Size and memory ---- */

    /** Changes the size and keeps the contents. */
    outcome resize(std::size_t size) { return check(synced_mem_resize(mem_, size)); }
    /** Changes the size and gives up the contents. */
    outcome resize_discard(std::size_t size) { return check(synced_mem_resize_discard(mem_, size)); }
    /** Gives up the host copy, whose contents move to the device. */
    outcome release_cpu_data() const { return check(synced_mem_release_cpu_data(mem_)); }
    /** Gives up the device copy, whose contents move to the host. */
    outcome release_gpu_data() const { return check(synced_mem_release_gpu_data(mem_)); }
    /** Gives up both copies and the contents. */
    outcome release_data() { return check(synced_mem_release_data(mem_)); }
    /** Borrows host memory of at least size() bytes. */
    outcome set_cpu_data(void *data) { return check(synced_mem_set_cpu_data(mem_, data)); }
    /** Borrows device memory of at least size() bytes. */
    outcome set_gpu_data(void *data) { return check(synced_mem_set_gpu_data(mem_, data)); }
    /** Borrows or adopts memory. */
    outcome use_memory(const synced_mem_memory &with) { return check(synced_mem_use_memory(mem_, &with)); }

    /* ---- Files ---- */

    /** Makes the bytes of the file from the offset on the contents. */
    outcome use_file(const file &in, std::uint64_t offset);
    /** Writes the contents to the file, from the offset on; file::wait() says whether that has succeeded. */
    outcome async_write_file(const file &to, std::uint64_t offset, synced_mem_stream stream = no_stream());
    /** Does the same, and puts the object into the file by that, unless a call changes the contents before. */
    outcome async_store_in_file(const file &to, std::uint64_t offset, synced_mem_stream stream = no_stream());

    /* ---- Facts ---- */

    /** Returns the size of the contents in bytes. */
    std::size_t size() const noexcept { return synced_mem_size(mem_); }
    /** Returns the head. */
    synced_mem_head_kind head() const noexcept { return synced_mem_head(mem_); }
    /** Returns whether all bytes are in a file. */
    bool in_file() const noexcept { return synced_mem_in_file(mem_) != 0; }
    /** Returns the device, SYNCED_MEM_DEVICE_CURRENT if there is none yet. */
    int device() const noexcept { return synced_mem_device(mem_); }
    /** Returns the name, good as long as the object. */
    const char *name() const noexcept { return synced_mem_name(mem_); }

    /* ---- Other processes ---- */

    /** Gives the object to the process at the other end of a socket. */
    outcome share(int socket, int timeout_ms) const { return check(synced_mem_share(mem_, socket, timeout_ms)); }
    /** Makes an object of what the process at the other end of a socket gives. */
    [[nodiscard]] static memory receive(int socket, int timeout_ms)
    {
        memory result;
        result.made(synced_mem_receive(&result.mem_, socket, timeout_ms));
        return result;
    }

    /* ---- Tensors ---- */

    /** Makes a tensor of the elements T. */
    template <class T, class Tensor = DLManagedTensorVersioned>
    [[nodiscard]] basic_tensor<Tensor> to_dlpack(synced_mem_side side, synced_mem_mode mode,
                                                 std::initializer_list<std::int64_t> shape,
                                                 synced_mem_stream stream = no_stream())
    {
        synced_mem_dlpack_options with = {};
        with.struct_size = sizeof with;
        with.side = side;
        with.mode = mode;
        with.type_code = dlpack_type<T>::code;
        with.type_bits = dlpack_type<T>::bits;
        with.ndim = static_cast<std::int32_t>(shape.size());
        with.shape = shape.begin();
        with.stream = stream;
        return to_dlpack<Tensor>(with);
    }
    /** Makes a tensor as the options say. */
    template <class Tensor = DLManagedTensorVersioned>
    [[nodiscard]] basic_tensor<Tensor> to_dlpack(const synced_mem_dlpack_options &with)
    {
        Tensor *made = nullptr;
        if (detail::to_dlpack(&made, mem_, &with) != SYNCED_MEM_OK)
            detail::fail();
        return basic_tensor<Tensor>(made);
    }

    /** Makes an object of the tensor in a guard, which is empty after success, and after a failure has its tensor. */
    template <class Tensor>
    [[nodiscard]] static memory from_dlpack(basic_tensor<Tensor> &&from, synced_mem_stream stream = nullptr)
    {
        memory result;
        const synced_mem_status status = detail::from_dlpack(&result.mem_, from.get(), stream, nullptr);
        if (status == SYNCED_MEM_OK)
            (void)from.release();
        result.made(status);
        return result;
    }

  private:
    static void made(synced_mem_status status)
    {
        if (status != SYNCED_MEM_OK)
            detail::fail();
    }
    template <class T, class Void> access<T> seen(Void *data) const { return {mem_, static_cast<T *>(check(data))}; }

    synced_mem *mem_ = nullptr;
};

/** Exchanges the objects of two owners. @since 0.2 */
inline void swap(memory &one, memory &other) noexcept
{
    one.swap(other);
}

/* ---- Scopes ---- */

/** A scope of the thread, which ends with its block. @since 0.2 */
class scope
{
  public:
    /** Begins a scope, whose name may go after the call. */
    explicit scope(const char *name) noexcept { synced_mem_scope_begin(name); }
    /** Ends the scope. */
    ~scope() { synced_mem_scope_end(); }
    /** The guard stays in its block. */
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
};

/* ---- Page-locked memory ---- */

#if SYNCED_MEM_EXCEPTIONS
/** Page-locked memory of the library's pool, for containers; without a GPU pageable memory. An allocation is an object,
 * so that synced_mem_shutdown() fails while one is left. Without exceptions there is no such class, as a container
 * could not hear of a refusal. @since 0.2 */
class pinned_resource final : public std::pmr::memory_resource
{
  public:
    /** Serves memory near a device, 0 or more. */
    explicit pinned_resource(int device = 0) noexcept : device_(device) {}
    /** The resource stays where it is. */
    pinned_resource(const pinned_resource &) = delete;
    pinned_resource &operator=(const pinned_resource &) = delete;

  private:
    using handle = synced_mem *;

    /* The object's handle lies in front of the memory, whose alignment is that of the space in front. */
    void *do_allocate(std::size_t size, std::size_t alignment) override
    {
        options with;
        with.device = device_;
        const std::size_t front = alignment > 64 ? alignment : 64;
        with.alignment = front;
        memory mem(size <= SIZE_MAX - front ? front + size : SIZE_MAX, with);
        std::byte *const data = mem.overwrite_cpu_data() + front;
        new (data - sizeof(handle)) handle(mem.detach());
        return data;
    }

    void do_deallocate(void *data, std::size_t, std::size_t) override
    {
        (void)synced_mem_release(
            *std::launder(reinterpret_cast<handle *>(static_cast<std::byte *>(data) - sizeof(handle))));
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

    int device_;
};
#endif

} // namespace SYNCED_MEM_FAILURES

} // namespace synced

#undef SYNCED_MEM_VISIBLE
#undef SYNCED_MEM_COLD

#include "synced_mem/budget.hpp"    // holds
#include "synced_mem/files.hpp"     // files
#include "synced_mem/processes.hpp" // turns, slots

#endif
