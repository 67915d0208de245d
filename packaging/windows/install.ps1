<#
.SYNOPSIS
Installs Betz for the current user: betz.exe, betz.dll, headers, import libraries and CMake files.

.DESCRIPTION
Unpack the zip, and run this there:

    powershell -ExecutionPolicy Bypass -File install.ps1

Copies this folder, which is the content of the zip, to -Prefix, and adds its bin folder to the user's Path. Needs no
administrator. -Uninstall removes the folder and its place in Path. If it fails, run it again.

.PARAMETER Prefix
Folder to install into. Default: %LOCALAPPDATA%\Programs\betz

.PARAMETER NoPath
Leaves Path unchanged.

.PARAMETER Uninstall
Removes what an earlier run installed.
#>
[CmdletBinding()]
param(
    [string]$Prefix = (Join-Path $env:LOCALAPPDATA 'Programs\betz'),
    [switch]$NoPath,
    [switch]$Uninstall
)
$ErrorActionPreference = 'Stop'
Set-StrictMode -Version 2

# Path must not depend on the folder that this was started in.
$Prefix = $ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($Prefix)
$mark = Join-Path $Prefix 'betz-installed.txt'
$bin = Join-Path $Prefix 'bin'

# As text with names such as %USERPROFILE%, in whose place [Environment] would put their values for good.
$environment = 'HKCU:\Environment'

function Get-UserPath {
    $path = (Get-Item -LiteralPath $environment).GetValue('Path', '', 'DoNotExpandEnvironmentNames')
    return @($path -split ';' | Where-Object { $_ -ne '' })
}

function Set-UserPath([string[]]$folders) {
    Set-ItemProperty -LiteralPath $environment -Name 'Path' -Value ($folders -join ';') -Type ExpandString
    # Setting a variable tells running programs, such as the desktop, to read all of them again.
    $name = 'BETZ_INSTALL_' + [Guid]::NewGuid().ToString('N')
    [Environment]::SetEnvironmentVariable($name, '1', 'User')
    [Environment]::SetEnvironmentVariable($name, $null, 'User')
}

if ($Uninstall) {
    if (-not (Test-Path -LiteralPath $mark)) {
        throw "Expected a folder that install.ps1 made (with betz-installed.txt), got ${Prefix}: nothing was removed."
    }
    # The mark and this script go last, so that a removal that failed half way can be repeated.
    $last = @($mark, (Join-Path $Prefix 'install.ps1'))
    try {
        Get-ChildItem -LiteralPath $Prefix -Force | Where-Object { $last -notcontains $_.FullName } |
            Remove-Item -Recurse -Force
        Set-UserPath @(Get-UserPath | Where-Object { $_ -ne $bin })
        Remove-Item -LiteralPath $Prefix -Recurse -Force
    } catch {
        throw "Expected to remove ${Prefix}, got: $_ Close programs that use it, and run install.ps1 -Uninstall again."
    }
    Write-Output "Removed $Prefix."
    return
}

if (-not [Environment]::Is64BitOperatingSystem) {
    throw 'Expected a 64-bit Windows, got one of 32 bits.'
}
foreach ($file in 'bin\betz.exe', 'bin\betz.dll', 'include\betz.h') {
    if (-not (Test-Path -LiteralPath (Join-Path $PSScriptRoot $file))) {
        throw "Expected $file beside install.ps1, found none: unpack the whole zip, and run install.ps1 there."
    }
}
if ((Test-Path -LiteralPath $Prefix) -and -not (Test-Path -LiteralPath $mark) -and
    @(Get-ChildItem -LiteralPath $Prefix -Force).Count -gt 0) {
    throw "Expected an empty folder, or one that install.ps1 made, got ${Prefix}: name another one with -Prefix."
}
New-Item -ItemType Directory -Force -Path $Prefix | Out-Null
Set-Content -LiteralPath $mark -Value 'install.ps1 -Uninstall removes this folder.'
if ((Resolve-Path -LiteralPath $Prefix).Path -ne $PSScriptRoot) {
    Get-ChildItem -LiteralPath $PSScriptRoot -Force | Copy-Item -Destination $Prefix -Recurse -Force
}
if (-not $NoPath) {
    $folders = @(Get-UserPath)
    if ($folders -notcontains $bin) { Set-UserPath ($folders + $bin) }
}
Write-Output "Betz is in $Prefix. Open a new terminal, and try: betz demo"
