export async function readAll(stream: NodeJS.ReadStream): Promise<string> {
  let all = ''
  for await (const chunk of stream.setEncoding('utf8')) all += String(chunk)
  return all
}
