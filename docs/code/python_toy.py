"""
A toy that learns in Python: a network with one hidden layer learns where a point lies in a spiral. All parameters are
views of one object. It computes with CuPy on the device where there is CuPy and a GPU, else with NumPy on the host; the
program is the same, but for the side of its accesses.
"""
import numpy
import synced_mem

try:
    import cupy
    on_gpu = synced_mem.device_count() > 0
except ImportError:
    on_gpu = False
np = cupy if on_gpu else numpy

POINTS, HIDDEN, STEPS, RATE = 400, 64, 2000, 0.5


def array(mem, mode="read"):
    """Returns an array of an object, for its contents as they are now."""
    return cupy.from_dlpack(mem.gpu(mode)) if on_gpu else numpy.asarray(mem.cpu(mode))


def make_spiral(rng):
    """Fills objects on the host: points of two arms, and the arm of each."""
    points, arms = synced_mem.Memory((POINTS, 2), name="points"), synced_mem.Memory((POINTS, 1), name="arms")
    arm = rng.integers(0, 2, POINTS)
    angle = rng.uniform(0.5, 6, POINTS)
    radius = angle * numpy.where(arm, 1, -1) / 6
    numpy.asarray(points.cpu("overwrite"))[:] = numpy.stack([radius * numpy.cos(angle), radius * numpy.sin(angle)], 1)
    numpy.asarray(arms.cpu("overwrite"))[:] = arm[:, None]
    return points, arms


def make_parameters(rng):
    shapes = {"in": (2, HIDDEN), "bias": (HIDDEN,), "out": (HIDDEN, 1)}
    whole = synced_mem.Memory(sum(numpy.prod(shape) for shape in shapes.values()), name="parameters")
    numpy.asarray(whole.cpu("overwrite"))[:] = rng.normal(size=whole.size)
    parts, begin = {}, 0
    for name, shape in shapes.items():
        parts[name] = whole.part(4 * begin, shape, "float32", name=name)
        begin += parts[name].size
    return whole, parts


def step(points, arms, parts):
    """Makes one step downhill, and returns the loss."""
    x, y = array(points), array(arms)
    hidden = np.tanh(x @ array(parts["in"]) * 3 + array(parts["bias"]))
    guess = 1 / (1 + np.exp(-(hidden @ array(parts["out"]))))
    error = (guess - y) / POINTS
    inner = error @ array(parts["out"]).T * (1 - hidden * hidden)
    gradients = {"in": 3 * x.T @ inner, "bias": inner.sum(0), "out": hidden.T @ error}
    for name, gradient in gradients.items():
        parameter = array(parts[name], "mutable")
        parameter -= RATE * gradient
    return float(abs(guess - y).mean())


def main():
    rng = numpy.random.default_rng(1)
    points, arms = make_spiral(rng)
    whole, parts = make_parameters(rng)
    first = last = step(points, arms, parts)
    for _ in range(STEPS):
        last = step(points, arms, parts)
    print(f"on the {'device' if on_gpu else 'host'}: error {first:.3f} before, {last:.3f} after {STEPS} steps")
    assert last < 0.1 and numpy.isfinite(numpy.asarray(whole.cpu())).all()


main()
