/*
 * Graphs: captured work, which each launch queues again. A launch queues every node on the launching stream, in the
 * order of capture. That is one of the orders that the graph permits.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

/* ---- Nodes ---- */

/* Puts the graph in the list of all graphs, so that emu_reset() also finds graphs that are still being captured. */
struct emu_graph *emu_graph_new(void)
{
    struct emu_graph *graph = emu_allocate(sizeof *graph);
    graph->refs = 1;
    graph->next = emu.graphs;
    if (emu.graphs != NULL)
        emu.graphs->before = graph;
    emu.graphs = graph;
    return graph;
}

void emu_graph_unref(struct emu_graph *graph)
{
    if (--graph->refs > 0)
        return;
    if (graph->before != NULL)
        graph->before->next = graph->next;
    else
        emu.graphs = graph->next;
    if (graph->next != NULL)
        graph->next->before = graph->before;
    for (size_t i = 0; i < graph->count; i++) {
        free(graph->nodes[i].staging);
        free(graph->nodes[i].ranges);
        free(graph->nodes[i].deps);
    }
    free(graph->nodes);
    free(graph);
}

static struct emu_node *new_node(struct emu_graph *graph)
{
    if (graph->count == graph->room) {
        const size_t room = graph->room == 0 ? 16 : 2 * graph->room;
        struct emu_node *nodes = emu_allocate(room * sizeof *nodes);
        if (graph->count > 0)
            memcpy(nodes, graph->nodes, graph->count * sizeof *nodes);
        free(graph->nodes);
        graph->nodes = nodes;
        graph->room = room;
    }
    return &graph->nodes[graph->count++];
}

static char *copy_block(const char *block, size_t size)
{
    char *const copy = emu_allocate(size);
    memcpy(copy, block, size);
    return copy;
}

/* Keeps the work of the operation and its addresses, but no reference to the memory. Each launch looks the memory up.
 * */
unsigned emu_graph_add(struct emu_graph *graph, const struct emu_op *op, const struct emu_joint *after)
{
    struct emu_node *node = new_node(graph);
    *node = (struct emu_node){.kind = op->kind,
                              .device = op->device,
                              .origin = op->origin,
                              .to = op->to,
                              .from = op->from,
                              .size = op->size,
                              .value = op->value,
                              .function = op->function,
                              .argument = op->argument,
                              .library = op->library,
                              .range_count = op->use_count,
                              .dep_count = after->count};
    if (op->kind == EMU_OP_LIST)
        node->staging = copy_block(op->staging, op->size);
    if (op->use_count > 0)
        node->ranges = emu_allocate(op->use_count * sizeof *node->ranges);
    for (unsigned i = 0; i < op->use_count; i++)
        node->ranges[i] = (struct emu_range){op->uses[i].start, op->uses[i].size, op->uses[i].write};
    if (after->count > 0) {
        node->deps = emu_allocate(after->count * sizeof *node->deps);
        memcpy(node->deps, after->nodes, after->count * sizeof *node->deps);
    }
    return (unsigned)(graph->count - 1);
}

/* Dependencies have lower numbers. So one pass from the end finds every node before the given ones. */
bool emu_graph_is_joined(const struct emu_graph *graph, const struct emu_joint *end)
{
    bool *before = emu_allocate(graph->count + 1);
    bool joined = true;
    for (size_t i = 0; i < end->count; i++)
        before[end->nodes[i]] = true;
    for (size_t i = graph->count; i-- > 0 && joined;) {
        joined = before[i];
        for (size_t j = 0; j < graph->nodes[i].dep_count; j++)
            before[graph->nodes[i].deps[j]] = true;
    }
    free(before);
    return joined;
}

/* ---- Handles ---- */

cudaGraph_t emu_graph_handle(struct emu_graph *graph)
{
    struct CUgraph_st *handle = emu_slot_take(&emu.graph_handles);
    if (handle == NULL)
        return NULL;
    handle->graph = graph;
    handle->born = emu_self()->origin;
    emu.live[EMU_GRAPH]++;
    return handle;
}

static cudaError_t graph_of(cudaGraph_t handle)
{
    if (handle == NULL)
        return cudaErrorInvalidValue;
    if (!emu_slot_is_live(&emu.graph_handles, handle))
        return emu_misuse("%p is not, or no longer, a graph", (void *)handle);
    return cudaSuccess;
}

static cudaError_t exec_of(cudaGraphExec_t handle)
{
    if (handle == NULL)
        return cudaErrorInvalidValue;
    if (!emu_slot_is_live(&emu.exec_handles, handle))
        return emu_misuse("%p is not, or no longer, an executable graph", (void *)handle);
    return cudaSuccess;
}

static cudaError_t instantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    /* These two flags change nothing: graphs allocate nothing, and nodes run in one order. */
    const unsigned long long known = cudaGraphInstantiateFlagAutoFreeOnLaunch | cudaGraphInstantiateFlagUseNodePriority;
    const cudaError_t error = graph_of(graph);
    if (error != cudaSuccess)
        return error;
    if (out == NULL || (flags & ~(known | cudaGraphInstantiateFlagDeviceLaunch)) != 0)
        return cudaErrorInvalidValue;
    if ((flags & ~known) != 0)
        return cudaErrorNotSupported;
    struct CUgraphExec_st *exec = emu_slot_take(&emu.exec_handles);
    if (exec == NULL)
        return cudaErrorMemoryAllocation;
    exec->graph = graph->graph;
    exec->graph->refs++;
    exec->born = emu_self()->origin;
    emu.live[EMU_GRAPH_EXEC]++;
    *out = exec;
    return cudaSuccess;
}

static cudaError_t destroy_exec(cudaGraphExec_t exec)
{
    const cudaError_t error = exec_of(exec);
    if (error != cudaSuccess)
        return error;
    if (exec->last != NULL)
        emu_op_unref(exec->last);
    emu_graph_unref(exec->graph);
    emu_slot_give(&emu.exec_handles, exec);
    emu.live[EMU_GRAPH_EXEC]--;
    return cudaSuccess;
}

static cudaError_t destroy_graph(cudaGraph_t graph)
{
    const cudaError_t error = graph_of(graph);
    if (error != cudaSuccess)
        return error;
    emu_graph_unref(graph->graph);
    emu_slot_give(&emu.graph_handles, graph);
    emu.live[EMU_GRAPH]--;
    return cudaSuccess;
}

/* ---- Launching ---- */

/* Checks that the memory of every node still exists. */
static cudaError_t check_memory(const struct emu_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        const struct emu_node *node = &graph->nodes[i];
        for (size_t j = 0; j < node->range_count; j++) {
            const struct emu_range *range = &node->ranges[j];
            const struct emu_alloc *alloc = emu_find(range->data);
            if (alloc == NULL || alloc->state != EMU_LIVE ||
                range->size > alloc->size - (size_t)((const char *)range->data - alloc->start))
                return emu_misuse("%p, %zu bytes, which a node uses, is no longer allocated: %s", range->data,
                                  range->size, emu_describe(&node->origin));
        }
    }
    return cudaSuccess;
}

/* Creates a new operation from a node. A kernel may access other memory than at the capture. */
static struct emu_op *op_of(const struct emu_node *node, struct emu_stream *stream)
{
    struct emu_op *op = emu_op_new(node->kind, stream);
    op->device = node->device;
    op->to = node->to;
    op->from = node->from;
    op->size = node->size;
    op->value = node->value;
    op->function = node->function;
    op->argument = node->argument;
    op->library = node->library;
    if (node->kind == EMU_OP_LIST)
        op->staging = copy_block(node->staging, node->size);
    emu_op_room_for_uses(op, (unsigned)node->range_count);
    for (size_t i = 0; i < node->range_count; i++) {
        const struct emu_range *range = &node->ranges[i];
        struct emu_alloc *alloc = emu_find(range->data);
        if ((node->kind == EMU_OP_KERNEL || node->kind == EMU_OP_LIST) && alloc != NULL && op->fault == cudaSuccess)
            op->fault = emu_kernel_fault(node->device, alloc, range->write);
        emu_op_touches(op, alloc, range->data, range->size, range->write);
    }
    return op;
}

/* Orders each launch after the one before, on whatever stream that was. */
static void queue_mark(struct CUgraphExec_st *exec, struct emu_stream *stream, bool last)
{
    struct emu_op *op = emu_op_new(EMU_OP_MARK, stream);
    if (!last) {
        emu_op_after(op, exec->last);
        op->waits_for = exec->last == NULL ? NULL : emu_clock_ref(exec->last->clock);
    }
    if (last) {
        if (exec->last != NULL)
            emu_op_unref(exec->last);
        emu_op_ref(op);
        exec->last = op;
    }
    emu_op_queue(op);
}

static cudaError_t launch(cudaGraphExec_t exec, cudaStream_t handle)
{
    struct emu_stream *stream = NULL;
    cudaError_t error = exec_of(exec);
    if (error == cudaSuccess)
        error = emu_stream_to_queue(handle, &stream);
    if (error == cudaSuccess)
        error = check_memory(exec->graph);
    if (error != cudaSuccess)
        return error;
    /* Within another capture the nodes become nodes of that graph. */
    const bool captured = stream->capture != NULL;
    struct emu_graph *graph = exec->graph;
    graph->refs++;
    if (!captured)
        queue_mark(exec, stream, false);
    for (size_t i = 0; i < graph->count; i++)
        emu_op_queue(op_of(&graph->nodes[i], stream));
    if (!captured)
        queue_mark(exec, stream, true);
    emu_graph_unref(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t error = EMU_ENTER(cudaGraphInstantiate, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = instantiate(pGraphExec, graph, flags);
    return emu_leave(error);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
    cudaError_t error = EMU_ENTER(cudaGraphInstantiateWithFlags, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = instantiate(pGraphExec, graph, flags);
    return emu_leave(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    cudaError_t error = EMU_ENTER(cudaGraphLaunch, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = launch(graphExec, stream);
    return emu_leave(error);
}

static cudaError_t get_nodes(cudaGraph_t handle, cudaGraphNode_t *nodes, size_t *count)
{
    const cudaError_t error = graph_of(handle);
    if (error != cudaSuccess || count == NULL)
        return error != cudaSuccess ? error : cudaErrorInvalidValue;
    struct emu_graph *graph = handle->graph;
    if (nodes == NULL) {
        *count = graph->count;
        return cudaSuccess;
    }
    for (size_t i = 0; i < *count; i++)
        nodes[i] = i < graph->count ? (cudaGraphNode_t)(void *)&graph->nodes[i] : NULL;
    if (*count > graph->count)
        *count = graph->count;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    cudaError_t error = EMU_ENTER(cudaGraphGetNodes, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = get_nodes(graph, nodes, numNodes);
    return emu_leave(error);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    cudaError_t error = EMU_ENTER(cudaGraphExecDestroy, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = destroy_exec(graphExec);
    return emu_leave(error);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    cudaError_t error = EMU_ENTER(cudaGraphDestroy, EMU_NEEDS_CONTEXT);
    if (error == cudaSuccess)
        error = destroy_graph(graph);
    return emu_leave(error);
}

void emu_graphs_reset(void)
{
    for (size_t i = 0; i < emu.exec_handles.used; i++) {
        const struct CUgraphExec_st *exec = &((const struct CUgraphExec_st *)(void *)emu.exec_handles.base)[i];
        if (exec->slot.live && exec->last != NULL)
            emu_op_unref(exec->last);
    }
    while (emu.graphs != NULL) {
        emu.graphs->refs = 1;
        emu_graph_unref(emu.graphs);
    }
}
