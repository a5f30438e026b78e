/** JSON that a registry or a tenant wrote: some KiB, or in a thread. */
import { ArchiveFault } from '../../lib/archive/fault.ts'
import { inThread } from '../../lib/archive/thread.ts'
import { seconds } from '../../lib/duration.ts'
import { ImageError } from '../base/image-error.ts'

/** Takes 10 ms to parse at worst. Most manifests and configurations have a tenth of it. */
export const inlineBytes = 64 << 10
const parseMs = seconds(20)

/**
 * The text of a document without what nobody here reads, such as labels, which may have hundreds of KiB.
 * @throws ImageError `image_unusable` when it is no JSON, or what is left is still too long
 */
export async function slimDocument(text: string): Promise<string> {
  if (text.length <= inlineBytes) return text
  try {
    const signal = new AbortController().signal
    return String(
      await inThread(new URL('./document-thread.ts', import.meta.url), text, { signal, timeoutMs: parseMs }),
    )
  } catch (cause) {
    if (!(cause instanceof ArchiveFault)) throw cause
    throw new ImageError('image_unusable', `a manifest or configuration of the image ${cause.message}`, { cause })
  }
}
