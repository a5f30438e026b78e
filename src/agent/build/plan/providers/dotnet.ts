import { lineAt, type Project } from '../project.ts'
import type { Provider, ToolVersion } from '../types.ts'
import { versionOf } from '../versions.ts'

/** A C# project with a .csproj file at the top, published in the Release configuration. */
export const dotnet: Provider = {
  name: 'dotnet',
  detect: project => project.find(/^[^/]+\.csproj$/).length > 0,
  plan: project => {
    const file = project.find(/^[^/]+\.csproj$/)[0] ?? ''
    const isWeb = project.text(file).includes('Microsoft.NET.Sdk.Web')
    return {
      framework: isWeb ? 'aspnet' : null,
      tools: [sdkOf(project, file)],
      install: ['dotnet restore'],
      build: ['dotnet publish --no-restore -c Release -o out'],
      start: `ASPNETCORE_URLS=http://0.0.0.0:$PORT ./out/${file.replace(/\.csproj$/, '')}`,
      staticDir: null,
      port: null,
    }
  },
}

/** Returns the SDK version that global.json or a version file names, otherwise that of the target framework. */
function sdkOf(project: Project, file: string): ToolVersion {
  const named = versionOf(project, 'dotnet')
  const text = project.text(file)
  const target = /<TargetFramework>net(\d+\.\d+)</.exec(text)
  if (named.from !== null || target?.[1] === undefined) return named
  return { tool: 'dotnet', version: target[1], from: { file, line: lineAt(text, target.index) } }
}
