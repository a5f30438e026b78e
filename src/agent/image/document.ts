/** Shortens and parses JSON from a registry or a tenant. Large documents are parsed in a worker thread. */
import { ArchiveFault } from '../../lib/archive/fault.ts'
import { inThread } from '../../lib/archive/thread.ts'
import { seconds } from '../../lib/duration.ts'
import { ImageError } from '../base/image-error.ts'

/**
 * Documents up to this size are parsed on the main thread, which takes at most 10 ms. Most manifests and configurations
 * have a tenth of this size.
 */
export const inlineBytes = 64 << 10
const parseMs = seconds(20)

/**
 * Returns the document without fields that the agent never reads, such as labels, which may take hundreds of KiB.
 * @throws ImageError `image_unusable` when the text is not JSON, or is too long even without those fields
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
