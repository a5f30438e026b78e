/** How long the URL of a download stays valid: a browser needs time to begin saving. */
const keepUrlMs = 60_000

/** Downloads data as a file, as if the user had clicked a download link. */
export function saveBlob(data: Blob, name: string): void {
  const url = URL.createObjectURL(data)
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), keepUrlMs)
}
