// A tensor class with move semantics, as a framework would write it with synced_mem.hpp. Random operations on a list of
// tensors are compared with vectors.
#include "kit.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace
{

class Tensor
{
  public:
    Tensor() = default;
    explicit Tensor(std::size_t count) : mem_(count * sizeof(float))
    {
    }

    Tensor clone() const
    {
        Tensor copy(size());
        if (size() != 0)
            copy.mem_.cpu_copy(mem_);
        return copy;
    }
    Tensor slice(std::size_t begin, std::size_t count) const
    {
        Tensor part;
        part.mem_ = mem_.view(begin * sizeof(float), count * sizeof(float));
        return part;
    }

    std::size_t size() const
    {
        return mem_.size() / sizeof(float);
    }
    void resize(std::size_t count)
    {
        mem_.resize(count * sizeof(float));
    }
    synced::access<const float> cpu() const
    {
        return mem_.cpu_data<float>();
    }
    synced::access<float> mutable_cpu()
    {
        return mem_.mutable_cpu_data<float>();
    }

    // Adds to each element on the device, on a stream of the caller's; without a GPU on the host.
    void fill(unsigned char byte, cudaStream_t stream)
    {
        if (with_gpu())
            CHECK(cudaMemsetAsync(mem_.overwrite_gpu_data_on(stream), byte, mem_.size(), stream) == cudaSuccess);
        else
            std::memset(mem_.overwrite_cpu_data(), byte, mem_.size());
    }
    void push(cudaStream_t stream) const
    {
        if (with_gpu() && (mem_.head() == SYNCED_MEM_AT_CPU || mem_.head() == SYNCED_MEM_SYNCED))
            mem_.async_gpu_push(stream);
    }

  private:
    synced::memory mem_;
};

using Reference = std::vector<float>;

struct Pair {
    Tensor tensor;
    Reference reference;
};

bool same(const Tensor &tensor, const Reference &reference)
{
    const synced::access<const float> elements = tensor.cpu();
    return elements.size() == reference.size() && std::equal(elements.begin(), elements.end(), reference.begin());
}

Pair make(std::size_t count)
{
    return {Tensor(count), Reference(count)};
}

class Player
{
  public:
    explicit Player(unsigned seed) : random_(seed)
    {
        for (int i = 0; i < 6; i++)
            pairs_.push_back(make(below(2000)));
    }

    void play(int steps, cudaStream_t stream)
    {
        for (int i = 0; i < steps; i++)
            step(stream);
        for (const Pair &pair : pairs_)
            CHECK(same(pair.tensor, pair.reference));
    }

  private:
    std::size_t below(std::size_t end)
    {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
    }
    Pair &any()
    {
        return pairs_[below(pairs_.size())];
    }

    void step(cudaStream_t stream)
    {
        Pair &pair = any();
        const std::size_t count = pair.reference.size();
        switch (below(9)) {
        case 0: { // the vector moves its tensors
            pairs_.push_back(make(below(2000)));
            std::swap(pairs_.front(), pairs_.back());
            pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(below(pairs_.size())));
            break;
        }
        case 1: {
            Pair copy = {pair.tensor.clone(), pair.reference};
            any() = std::move(copy);
            break;
        }
        case 2: {
            const std::size_t size = below(3000);
            pair.tensor.resize(size);
            pair.reference.resize(size);
            break;
        }
        case 3: {
            const auto byte = static_cast<unsigned char>(below(64));
            pair.tensor.fill(byte, stream);
            if (count != 0)
                std::memset(pair.reference.data(), byte, count * sizeof(float));
            break;
        }
        case 4: {
            const auto value = static_cast<float>(below(1000));
            for (float &element : pair.tensor.mutable_cpu())
                element += value;
            for (float &element : pair.reference)
                element += value;
            break;
        }
        case 5:
            write_slice(pair);
            break;
        case 6: {
            Tensor taken = std::move(pair.tensor);
            CHECK(pair.tensor.size() == 0);
            pair.tensor = std::move(taken);
            break;
        }
        case 7:
            pair.tensor.push(stream);
            break;
        default:
            CHECK(same(pair.tensor, pair.reference));
        }
    }

    void write_slice(Pair &pair)
    {
        const std::size_t begin = below(pair.reference.size() + 1);
        const std::size_t count = below(pair.reference.size() - begin + 1);
        Tensor slice = pair.tensor.slice(begin, count);
        std::size_t i = begin;
        for (float &element : slice.mutable_cpu())
            element = pair.reference[i++] = -1;
        CHECK(i == begin + count);
    }

    std::mt19937 random_;
    std::vector<Pair> pairs_;
};

void tensors_are_vectors()
{
    for (unsigned seed = 0; seed < 10; seed++) {
        if (with_gpu()) {
            const Stream stream;
            Player(seed).play(1000, stream);
        } else {
            Player(seed).play(1000, nullptr);
        }
    }
}

const Test tests[] = {{"tensors_are_vectors", tensors_are_vectors, false}};

} // namespace

int main()
{
    return run_tests(tests);
}
