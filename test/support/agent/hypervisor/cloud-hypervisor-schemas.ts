/**
 * Schemas of Cloud Hypervisor's request bodies (v53), for the fake. Unlike the real program, they reject unknown
 * fields.
 */
import { type Static, Type } from 'typebox'

export const strict = { additionalProperties: false }
export const int = Type.Integer({ minimum: 0 })
export const text = Type.String({ minLength: 1 })
export const bucket = Type.Object({ size: int, refill_time: int, one_time_burst: Type.Optional(int) }, strict)
export const limiter = Type.Object({ bandwidth: Type.Optional(bucket), ops: Type.Optional(bucket) }, strict)
export const Disk = Type.Object(
  {
    id: text,
    serial: text,
    path: text,
    readonly: Type.Boolean(),
    image_type: Type.Enum(['Raw', 'Qcow2', 'FixedVhd', 'Vhdx']),
    rate_limiter_config: limiter,
  },
  strict,
)
export const Config = Type.Object(
  {
    cpus: Type.Object({ boot_vcpus: int, max_vcpus: int, nested: Type.Boolean() }, strict),
    memory: Type.Object({ size: int }, strict),
    payload: Type.Object({ kernel: text, initramfs: Type.Union([text, Type.Null()]), cmdline: text }, strict),
    disks: Type.Array(Disk),
    net: Type.Array(
      Type.Object(
        {
          id: text,
          tap: text,
          mac: text,
          rate_limiter_config: limiter,
          host_mac: Type.Optional(Type.Union([text, Type.Null()])),
        },
        strict,
      ),
    ),
    rng: Type.Object({ src: text }, strict),
    balloon: Type.Object({ size: int, deflate_on_oom: Type.Boolean(), free_page_reporting: Type.Boolean() }, strict),
    vsock: Type.Object({ id: text, cid: Type.Integer({ minimum: 3 }), socket: text }, strict),
    serial: Type.Object({ mode: Type.Enum(['Off', 'File', 'Socket', 'Null']), socket: Type.Optional(text) }, strict),
    console: Type.Object({ mode: Type.Enum(['Off', 'Null']) }, strict),
  },
  strict,
)
export type Config = Static<typeof Config>
