// A ring of two buffers: the host fills one while the device works on the other. A stream pushes, a stream computes, and
// results come back. Every result is compared with that of the host.
#include "kit.hpp"

#include <array>
#include <cstring>
#include <stdexcept>

namespace
{

constexpr std::size_t SIZE = 1 << 16;
constexpr int STEPS = 40;

class Ring
{
  public:
    Ring() : slots_{Slot{make("ring 0"), make("result 0")}, Slot{make("ring 1"), make("result 1")}}
    {
    }

    // Queues a batch, and returns at once. The batch is to be filled by the function.
    template <class Fill> void put(Fill fill)
    {
        Slot &slot = slots_[next_++ % 2];
        fill(slot.batch.overwrite_cpu_data<unsigned char>());
        slot.batch.async_gpu_push(pushes_);
        const auto in = slot.batch.gpu_data_on<unsigned char>(compute_);
        const auto out = slot.result.overwrite_gpu_data_on<unsigned char>(compute_);
        // Stands for a kernel that reverses the halves.
        copy(out, in + SIZE / 2);
        copy(out + SIZE / 2, in);
        slot.result.async_cpu_pull(compute_);
    }

    // Returns the result of the last batch but `back`.
    synced::access<const unsigned char> result(int back) const
    {
        return slots_[static_cast<std::size_t>(next_ - 1 - back) % 2].result.cpu_data<unsigned char>();
    }

  private:
    struct Slot {
        synced::memory batch, result;
    };

    static synced::memory make(const char *name)
    {
        synced::options options;
        options.name = name;
        options.device = 0;
        return synced::memory(SIZE, options);
    }

    void copy(void *to, const void *from)
    {
        CHECK(cudaMemcpyAsync(to, from, SIZE / 2, cudaMemcpyDeviceToDevice, compute_) == cudaSuccess);
    }

    Stream pushes_, compute_; // end after the buffers
    std::array<Slot, 2> slots_;
    unsigned next_ = 0;
};

void expect(synced::access<const unsigned char> result, int step)
{
    CHECK(result.size() == SIZE);
    CHECK(result[0] == static_cast<unsigned char>(2 * step + 1) && result[SIZE / 2 - 1] == result[0]);
    CHECK(result[SIZE / 2] == static_cast<unsigned char>(2 * step) && result[SIZE - 1] == result[SIZE / 2]);
}

void fill(synced::access<unsigned char> batch, int step)
{
    std::memset(batch.begin(), 2 * step, SIZE / 2);
    std::memset(batch + SIZE / 2, 2 * step + 1, SIZE / 2);
}

void results_are_in_order()
{
    Ring ring;
    for (int step = 0; step < STEPS; step++) {
        ring.put([&](synced::access<unsigned char> batch) { fill(batch, step); });
        if (step > 0)
            expect(ring.result(1), step - 1);
    }
    expect(ring.result(0), STEPS - 1);
}

// A loader that fails in the middle of its batch. The ring goes on, and ends with work in flight.
void a_loader_fails()
{
    Ring ring;
    for (int step = 0; step < STEPS; step++) {
        try {
            ring.put([&](synced::access<unsigned char> batch) {
                fill(batch, step);
                if (step % 3 == 1)
                    throw std::runtime_error("no such file");
            });
            expect(ring.result(0), step);
        } catch (const std::runtime_error &) {
            CHECK(step % 3 == 1);
        }
    }
    ring.put([](synced::access<unsigned char> batch) { fill(batch, 0); });
}

const Test tests[] = {
    {"results_are_in_order", results_are_in_order, true},
    {"a_loader_fails", a_loader_fails, true},
};

} // namespace

int main()
{
    return run_tests(tests);
}
