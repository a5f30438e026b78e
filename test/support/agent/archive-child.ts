/** Program that downloads an archive, for a test that kills it. Prints a line once the download has begun. */
import { downloadsWith } from '../../../src/agent/build/archives/download.ts'
import { archiveStore } from '../../../src/agent/build/archives/store.ts'

const [cacheDir = '', url = '', checksum = '', target = ''] = process.argv.slice(2)
const store = archiveStore(cacheDir, 64, downloadsWith(''))
await store.put({ url, algorithm: 'sha256', checksum }, target, AbortSignal.timeout(60_000))
