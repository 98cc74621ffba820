"""journal.jsonl as a Spark table: the schema is that of cluster.journal.JournalRow, and no other.

Reads and says what cannot be read; draws no conclusions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from cluster.journal import SCHEMA_VERSION, JournalRow

UNREADABLE: Final = "_unreadable"
_SCALARS: Final[dict[object, DataType]] = {int: LongType(), str: StringType()}


def journal_schema() -> StructType:
    """The fields of JournalRow under their names in the file, in its order."""
    hints = get_type_hints(JournalRow)
    return StructType(
        [
            StructField(field.encode_name, _spark_type(hints[field.name]), nullable=True)
            for field in msgspec.structs.fields(JournalRow)
        ]
    )


def read_journals(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """Every line of some journals of one cluster, fields left out of the file at their defaults.

    The column ``_unreadable`` has a line that is no row of this version of the schema, and else
    null: rows without it are all that ``readable`` gives.
    """
    schema = journal_schema()
    names = schema.fieldNames()
    lines = (
        spark.read.schema(schema.add(UNREADABLE, StringType()))
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", UNREADABLE)
        .json([str(path) for path in paths])
    )
    other_version = F.concat(F.lit("schema version "), F.coalesce("v", F.lit("none")))
    unreadable = F.coalesce(
        F.col(UNREADABLE), F.when(~F.col("v").eqNullSafe(SCHEMA_VERSION), other_version)
    )
    defaults = {
        field.encode_name: field.default
        for field in msgspec.structs.fields(JournalRow)
        if isinstance(field.default, int | str)
    }
    return lines.select(
        *(
            F.coalesce(name, F.lit(defaults[name])).alias(name) if name in defaults else F.col(name)
            for name in names
        ),
        unreadable.alias(UNREADABLE),
    )


def readable(lines: DataFrame) -> DataFrame:
    """The rows among the lines."""
    return lines.filter(F.col(UNREADABLE).isNull()).drop(UNREADABLE)


def unreadable_lines(lines: DataFrame, at_most: int) -> list[str]:
    """Up to ``at_most`` of the lines that are no rows, as they stand in the file."""
    # Spark will not look at this column alone: it would not parse the others.
    bad = lines.filter(F.col(UNREADABLE).isNotNull()).select("v", UNREADABLE).limit(at_most)
    return [row[UNREADABLE] for row in bad.collect()]


def _spark_type(hint: Any) -> DataType:
    """The Spark type of a field of JournalRow; nothing else is in the schema."""
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if get_origin(hint) is tuple:
        return ArrayType(_spark_type(kinds[0]))
    if hint in _SCALARS:
        return _SCALARS[hint]
    assert len(kinds) == 1, f"no Spark type for {hint}"
    return _spark_type(kinds[0])
