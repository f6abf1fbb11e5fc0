"""A LangGraph graph (https://langchain-ai.github.io/langgraph)."""

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessageChunk
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

from a2a_lambda import SkillError, Turn, skill

INSTRUCTIONS = "You are a helpful assistant. Answer briefly, in the language of the question."


def graph_of(model: ChatOpenAI) -> Any:
    """A graph with one node. Add your own: tools, a check, a second model."""

    async def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([("system", INSTRUCTIONS), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile()


@skill
async def chat(turn: Turn) -> AsyncIterator[str]:
    model = ChatOpenAI(
        model=turn.setting("openai-model", "gpt-5-mini"),
        api_key=turn.secret("openai"),
        base_url=turn.setting("openai-url", "https://api.openai.com/v1"),
        streaming=True,
    )
    # The kit keeps the conversation, so the graph needs no checkpointer.
    stream = graph_of(model).astream({"messages": turn.messages()}, stream_mode="messages")
    async for chunk, _ in stream:
        if isinstance(chunk, AIMessageChunk):
            if text := chunk.text:
                yield text
            if chunk.response_metadata.get("finish_reason") in ("length", "content_filter"):
                raise SkillError("I could not finish the answer.")
