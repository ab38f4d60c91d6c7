# Speaks to dlrund as whoever runs it: perl stranger.pl SOCKET PID < requests > answers
#
# Each line of standard input is a request in JSON. In it 1111111111 stands for PID and 2222222222222 for the time when
# that process started. Each answer becomes a line; an empty one where there was none.
#
# perl stranger.pl SOCKET PID flood FILE: sends what it was given again and again, reading some answers and not others, until
# FILE is there, or for a minute.
#
# perl stranger.pl SOCKET PID heavy FILE: many connections, each with the same requests for a node of its own, named in place
# of NODE, until some were refused, and then with half a long message. It says how many were registered, and holds them until
# FILE is there, or for three minutes.
use strict;
use IO::Handle;
use Socket;

my ($path, $pid, $mode, $over) = @ARGV;

sub start_of {
    open(my $file, '<', "/proc/$pid/stat") or return 0;
    my $stat = <$file>;
    return (split(' ', substr($stat, rindex($stat, ')') + 2)))[19];
}

sub connected {
    socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
    connect($socket, sockaddr_un($path)) or return;
    return $socket;
}

sub frame { my $text = shift; return pack('V', length $text) . $text }

sub take {
    my ($socket, $count) = @_;
    my $bytes = '';
    while (length $bytes < $count) {
        sysread($socket, $bytes, $count - length $bytes, length $bytes) or return;
    }
    return $bytes;
}

sub answer {
    my $socket = shift;
    my $head = take($socket, 4);
    return defined $head ? take($socket, unpack('V', $head)) : undef;
}

my $start = start_of();
my @requests = <STDIN>;
chomp @requests;
s/1111111111/$pid/g, s/2222222222222/$start/g for @requests;
$SIG{PIPE} = 'IGNORE';

if (($mode // '') eq 'flood') {
    my $until = time + 60;
    my @silent; # greeted, and never heard of again
    while (time < $until and !-e $over) {
        my @open = grep { defined } map { connected() } 1 .. 40;
        for my $socket (@open) {
            syswrite($socket, join('', map { frame($_) } $requests[0], (@requests[1 .. $#requests]) x 50));
        }
        answer($_) for @open[0 .. $#open / 2];
        push @silent, pop @open if @open and @silent < 200;
    }
    exit 0;
}

if (($mode // '') eq 'heavy') {
    my ($registered, $refused, @held) = (0, 0);
    for my $number (1 .. 24) {
        last if $refused > 3; # in a debug build each costs a tenth of a second
        my $socket = connected() or last;
        for my $request (@requests) {
            (my $own = $request) =~ s/NODE/n$number/g;
            syswrite($socket, frame($own)) or last;
            my $answer = answer($socket) // last;
            $registered++ if $answer =~ /"registered"/;
            $refused++, last if $answer =~ /"refused"/;
        }
        push @held, $socket;
    }
    for my $socket (@held) {
        $socket->blocking(0);
        syswrite($socket, pack('V', 1 << 20) . 'x' x 900_000);
    }
    $| = 1;
    print "$registered of ", scalar(@held), "\n";
    my $until = time + 180;
    select(undef, undef, undef, 0.1) while time < $until and !-e $over;
    exit 0;
}

my $socket = connected() or die "connect: $!";
$| = 1;
for my $request (@requests) {
    syswrite($socket, frame($request));
    print answer($socket) // '', "\n";
}
