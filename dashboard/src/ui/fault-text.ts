/** Texts of the server at fields of a form. Pure. */

const predicate = /^(?:is|are|was|has|have|can|cannot|must|may|needs|does|already)\b/

/**
 * The server describes a field without naming it, such as "must be a number".
 * @param label of the field; a question is not the subject of a sentence
 */
export function faultText(label: string, fault: string): string {
  const subject = label.endsWith('?') ? 'This answer' : label
  const sentence = predicate.test(fault) ? `${subject} ${fault}` : fault.charAt(0).toUpperCase() + fault.slice(1)
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`
}
