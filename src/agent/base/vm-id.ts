const vmIdPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** True for a valid VM id. Ids become file names, so other characters are refused. */
export function isVmId(text: string): boolean {
  return vmIdPattern.test(text)
}
