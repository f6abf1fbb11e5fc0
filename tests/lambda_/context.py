"""Lambda's context."""


class Context:
    """What Lambda says of an invocation."""

    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    function_name = "function"

    def get_remaining_time_in_millis(self) -> int:
        return 29_000
