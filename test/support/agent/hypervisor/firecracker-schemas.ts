/**
 * Schemas of Firecracker's request bodies (v1.16), for the fake. They reject unknown fields, as the real program does.
 */
import { Type } from 'typebox'

export const strict = { additionalProperties: false }
export const int = Type.Integer({ minimum: 0 })
export const text = Type.String({ minLength: 1 })
export const bucket = Type.Object({ size: int, refill_time: int, one_time_burst: Type.Optional(int) }, strict)
export const limiter = Type.Optional(
  Type.Object({ bandwidth: Type.Optional(bucket), ops: Type.Optional(bucket) }, strict),
)
export const Drive = Type.Object(
  {
    drive_id: text,
    path_on_host: text,
    is_root_device: Type.Boolean(),
    is_read_only: Type.Boolean(),
    cache_type: Type.Optional(Type.Enum(['Unsafe', 'Writeback'])),
    rate_limiter: limiter,
  },
  strict,
)
export const Load = Type.Object(
  {
    snapshot_path: text,
    mem_backend: Type.Object({ backend_type: Type.Enum(['File', 'Uffd']), backend_path: text }, strict),
    resume_vm: Type.Optional(Type.Boolean()),
    network_overrides: Type.Optional(Type.Array(Type.Object({ iface_id: text, host_dev_name: text }, strict))),
  },
  strict,
)
export const SavedState = Type.Object({
  drives: Type.Record(Type.String(), Type.String()),
  vsock: Type.Union([Type.String(), Type.Null()]),
  guest: Type.Boolean(),
  amountMib: int,
  memoryMib: int,
})
