/**
 * The part of the schema of `mote.toml` for canaries, and schema helpers that the other `*-schema.ts` files use, too.
 */
import { type TProperties, type TSchema, Type } from 'typebox'

export const table = <P extends TProperties>(properties: P, description: string) =>
  Type.Object(properties, { additionalProperties: false, description })
export const maybe = <T extends TSchema>(schema: T) => Type.Optional(schema)

export const Canary = table(
  {
    percent: Type.Number({
      minimum: 1,
      maximum: 99,
      description: 'Percentage of the requests that a new version gets during the canary.',
      examples: [10],
    }),
    seconds: maybe(
      Type.Integer({
        minimum: 10,
        maximum: 86_400,
        default: 300,
        description: 'Duration of the canary in seconds. After it, a canary that has not failed gets all requests.',
      }),
    ),
    max_error_percent: maybe(
      Type.Number({
        minimum: 0,
        maximum: 100,
        default: 5,
        description:
          'Error threshold in percent: the canary fails if a larger share of its requests ends with a 5xx status or without a response.',
      }),
    ),
    min_requests: maybe(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        default: 20,
        description:
          'Number of requests that the canary must have received before its error rate is compared with `max_error_percent`.',
      }),
    ),
  },
  'Sends a share of the requests to a new version before it gets all of them. If the canary fails, the previous version keeps serving. Without this table there are no canaries.',
)
