/** The part of the schema of `mote.toml` for canaries, and helpers that the other parts use, too. */
import { type TProperties, type TSchema, Type } from 'typebox'

export const table = <P extends TProperties>(properties: P, description: string) =>
  Type.Object(properties, { additionalProperties: false, description })
export const maybe = <T extends TSchema>(schema: T) => Type.Optional(schema)

export const Canary = table(
  {
    percent: Type.Number({
      minimum: 1,
      maximum: 99,
      description: 'Percentage of the requests that the new version gets.',
      examples: [10],
    }),
    seconds: maybe(Type.Integer({ minimum: 10, maximum: 86_400, default: 300, description: 'How long it gets them.' })),
    max_error_percent: maybe(
      Type.Number({
        minimum: 0,
        maximum: 100,
        default: 5,
        description: 'It fails if a larger percentage of its requests ends with 5xx or without an answer.',
      }),
    ),
    min_requests: maybe(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        default: 20,
        description: 'With fewer requests, errors are not compared.',
      }),
    ),
  },
  'Tries a new version with a share of the requests before it gets all. If it fails, the previous version keeps serving. Off if the table is absent.',
)
