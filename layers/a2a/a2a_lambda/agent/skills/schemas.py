"""JSON Schemas of what a skill takes and returns."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Field, PydanticUserError, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_jsonable_python
from typing_extensions import is_typeddict

from a2a_lambda import strictjson
from a2a_lambda.agent.skills.parameters import Parameter, values_of
from a2a_lambda.agent.skills.unions import check_unions
from a2a_lambda.errors import ImportFailed, error_text


def make_input_schema(skill_id: str, parameters: Sequence[Parameter], location: str) -> dict[str, Any]:
    """JSON Schema of parameters. location: where the skill is, as an error names it. Raises
    ConfigurationError."""
    try:
        model = _model_of(skill_id, parameters)
        schema: dict[str, Any] = model.model_json_schema(schema_generator=ParameterSchema)
        strictjson.dumps_verified(schema)  # a default may be infinite
    except Exception as error:
        subject = "its parameters have"
        for parameter in parameters:
            try:
                _model_of(skill_id, [parameter]).model_json_schema(schema_generator=ParameterSchema)
            except Exception:
                subject = f"parameter {parameter.name} has"
                break
        # If a pattern is wrong, the last line says why.
        lines = re.split(r"\n\s*|\. Set `", error_text(error))
        reason = lines[-1 if lines[0].endswith(":") else 0].removesuffix(".")
        raise ImportFailed(
            f"{location}: {subject} no JSON Schema",
            f": {reason}. A parameter is a value that JSON can hold, such as a dataclass or a pydantic model;"
            " the files of a message are in turn.files",
        ) from (None if isinstance(error, PydanticUserError) else error)
    if "$defs" in schema:
        with warnings.catch_warnings():  # which were given for the first schema
            warnings.simplefilter("ignore")
            reading_schema = model.model_json_schema(schema_generator=ReadingSchema)
            named_schema = model.model_json_schema(by_alias=False, schema_generator=ReadingSchema)
        check_unions(reading_schema, named_schema.get("$defs", {}), location)
    return schema


def _model_of(skill_id: str, parameters: Sequence[Parameter]) -> type[BaseModel]:
    """A model with the parameters as fields. Raises any exception, because a type is an agent's code."""
    fields: dict[str, Any] = {
        parameter.name: (
            parameter.hint,
            Field(
                default=... if parameter.is_required else parameter.default,
                description=parameter.description or None,
            ),
        )
        for parameter in parameters
    }
    with warnings.catch_warnings():  # a parameter called `schema` or `json` has the name of a method
        warnings.simplefilter("ignore", UserWarning)
        return create_model(skill_id, **fields)


def make_output_schema(returns: Any) -> dict[str, Any] | None:
    """JSON Schema of what a skill returns, if that is one class of objects; else None. returns: the skill's
    annotation."""
    hint = get_args(returns)[0] if get_origin(returns) is Annotated else returns
    kind: Any = get_origin(hint) or hint  # of a generic class
    is_model = isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))
    if not (is_model or is_typeddict(kind)) or kind.__module__.startswith("a2a_lambda."):
        return None
    try:
        schema_of = partial(
            TypeAdapter(hint).json_schema, mode="serialization", schema_generator=OutputSchema
        )
        schema = schema_of()
        # Only pydantic's own classes are sent by their aliases. What has both kinds promises nothing.
        if not hasattr(kind, "__pydantic_serializer__") and schema != schema_of(by_alias=False):
            return None
    except Exception:  # a class that has no schema promises nothing
        return None
    if "$ref" in schema:  # of a class that contains itself
        schema = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
    return schema if schema.get("type") == "object" else None


class ParameterSchema(GenerateJsonSchema):
    """Schemas from which a client can fill slots: they have no titles or nulls, a parameter has no list of
    types, and a decimal is a number."""

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        result = super().generate(schema, mode)
        result.setdefault("properties", {})
        for part in (result, *result.get("$defs", {}).values()):
            part.pop("title", None)
            _split_types(part)
            for field in part.get("properties", {}).values():
                field.pop("title", None)
                _split_types(field)
                if field.get("default", ...) is None:
                    del field["default"]
        return result

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        names = ("ge", "gt", "le", "lt", "multiple_of")
        settings: Mapping[str, Any] = schema
        bounds: Any = {name: float(settings[name]) for name in names if name in settings}
        return self.float_schema(core_schema.float_schema(**bounds))

    def encode_default(self, dft: Any) -> Any:
        return _with_numbers(dft) if isinstance(dft, Decimal | list | tuple) else super().encode_default(dft)

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        result = super().enum_schema(schema)
        return result | ({"enum": [*values_of(result)]} if "enum" in result else {})

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def _with_numbers(value: Any) -> Any:
    """A default as JSON, in which a decimal is a number, if JSON has it."""
    if isinstance(value, list | tuple):
        return list(map(_with_numbers, value))
    is_number = isinstance(value, Decimal) and value.is_finite()
    return float(value) if is_number else to_jsonable_python(value)


def _split_types(schema: JsonSchemaValue) -> None:
    """Write a list of types, which only an author's own schema has, as pydantic writes a union."""
    if isinstance(kinds := schema.get("type"), list):
        del schema["type"]
        options = [{"type": kind} for kind in kinds if kind != "null"]
        if len(options) == 1:
            schema.update(options[0])
        else:
            schema.setdefault("anyOf", options or [{"type": "null"}])


class ReadingSchema(GenerateJsonSchema):
    """Schemas with each type as which pydantic reads a value: two of a union may have the same schema. A
    union whose value a validator of the agent gets first is left out, because that may choose."""

    def get_union_of_schemas(self, schemas: list[JsonSchemaValue]) -> JsonSchemaValue:
        return {"anyOf": schemas}  # with equal ones

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        try:
            inner = self.generate_inner(schema["schema"])
        except PydanticInvalidForJsonSchema:  # the author has given another schema
            return {}
        return {} if "anyOf" in inner else inner

    def function_wrap_schema(self, schema: core_schema.WrapValidatorFunctionSchema) -> JsonSchemaValue:
        try:
            inner = self.generate_inner(schema["schema"])
        except PydanticInvalidForJsonSchema:
            return {}
        return {} if "anyOf" in inner else inner

    def function_plain_schema(self, schema: core_schema.PlainValidatorFunctionSchema) -> JsonSchemaValue:
        return {}


class OutputSchema(GenerateJsonSchema):
    """Schemas of what a skill returns. They promise only what the skill keeps and every client can check:
    some clients check formats, and read patterns as JavaScript does."""

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "string"}  # it may have an exponent, as in "1E-8", which pydantic's pattern refuses

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        # The formats are those of RFC 3339, and only this type always has the offset that it needs.
        return (
            super().datetime_schema(schema) if schema.get("tz_constraint") == "aware" else {"type": "string"}
        )

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return {"type": "string"}

    def timedelta_schema(self, schema: core_schema.TimedeltaSchema) -> JsonSchemaValue:
        return {"type": "string"}  # RFC 3339 has neither fractions nor signs

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return {key: value for key, value in super().str_schema(schema).items() if key != "pattern"}
